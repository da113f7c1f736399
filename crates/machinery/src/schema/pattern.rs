//! Regular expressions as Go's `regexp` reads them, on top of a crate with a slightly different dialect.

use std::fmt;

use regex::{Regex, RegexBuilder};

/// The most memory that one compiled pattern may take, in bytes.
const SIZE_LIMIT: usize = 1 << 20;

/// A compiled pattern with its original text.
#[derive(Clone)]
pub struct Pattern {
    text: String,
    regex: Regex,
}

impl Pattern {
    /// Compiles a pattern in Go's (RE2) syntax.
    ///
    /// # Errors
    /// What is wrong with it, in one line.
    pub fn new(text: &str) -> Result<Self, String> {
        Self::sized(text, SIZE_LIMIT)
    }

    /// The same with another limit of memory, in bytes.
    pub(super) fn sized(text: &str, limit: usize) -> Result<Self, String> {
        RegexBuilder::new(&translate(text))
            .size_limit(limit)
            .nest_limit(64)
            .build()
            .map(|regex| Self {
                text: text.to_owned(),
                regex,
            })
            .map_err(|error| {
                let text = error.to_string();
                let last = text.lines().last().unwrap_or_default();
                last.trim_start_matches("error: ").to_owned()
            })
    }

    /// The pattern's text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it is found in a text.
    pub fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    /// The first matches in a text.
    pub(crate) fn find_all<'t>(&self, text: &'t str, limit: usize) -> Vec<&'t str> {
        let found = self.regex.find_iter(text).take(limit);
        found.map(|found| found.as_str()).collect()
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}/", self.text)
    }
}

/// Makes classes mean ASCII, quotes what only our crate would treat as special inside brackets, and spells out
/// `\Q…\E`.
fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut chars = pattern.chars().peekable();
    // Inside brackets: how many characters stand there already.
    let mut class: Option<usize> = None;
    while let Some(c) = chars.next() {
        match (c, class) {
            ('\\', _) => {
                let Some(next) = chars.next() else {
                    out.push('\\');
                    break;
                };
                match next {
                    'd' => out.push_str("[0-9]"),
                    'D' => out.push_str("[^0-9]"),
                    'w' => out.push_str("[0-9A-Za-z_]"),
                    'W' => out.push_str("[^0-9A-Za-z_]"),
                    's' => out.push_str(r"[\t\n\x0c\r ]"),
                    'S' => out.push_str(r"[^\t\n\x0c\r ]"),
                    'b' if class.is_none() => out.push_str(r"(?-u:\b)"),
                    'B' if class.is_none() => out.push_str(r"(?-u:\B)"),
                    'Q' => {
                        let mut literal = String::new();
                        while let Some(c) = chars.next() {
                            if c == '\\' && chars.peek() == Some(&'E') {
                                chars.next();
                                break;
                            }
                            literal.push(c);
                        }
                        out.push_str(&regex::escape(&literal));
                    }
                    'E' => {}
                    other => {
                        out.push('\\');
                        out.push(other);
                    }
                }
                class = class.map(|n| n + 1);
            }
            ('[', None) => {
                class = Some(0);
                out.push('[');
                if chars.peek() == Some(&'^') {
                    out.push('^');
                    chars.next();
                }
            }
            // `[[:alpha:]]` is known to both; any other bracket in brackets is itself.
            ('[', Some(n)) => {
                if chars.peek() == Some(&':') {
                    out.push('[');
                    for c in chars.by_ref() {
                        out.push(c);
                        if c == ']' {
                            break;
                        }
                    }
                } else {
                    out.push_str(r"\[");
                }
                class = Some(n + 1);
            }
            // The first one inside is itself.
            (']', Some(0)) => {
                out.push_str(r"\]");
                class = Some(1);
            }
            (']', Some(_)) => {
                out.push(']');
                class = None;
            }
            ('&' | '~', Some(n)) => {
                out.push('\\');
                out.push(c);
                class = Some(n + 1);
            }
            // A dash that begins is itself, and so is the second of two: the end of a range.
            ('-', Some(0)) => {
                out.push_str(r"\-");
                class = Some(1);
            }
            ('-', Some(n)) => {
                out.push('-');
                if chars.next_if_eq(&'-').is_some() {
                    out.push_str(r"\-");
                }
                class = Some(n + 1);
            }
            (_, Some(n)) => {
                out.push(c);
                class = Some(n + 1);
            }
            (_, None) => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_dialect_of_go() {
        for (pattern, text, want) in [
            (r"^\d+$", "12", true),
            (r"^\d+$", "١", false),
            (r"^[\w-]+$", "a_b-1", true),
            (r"^\w+$", "é", false),
            (r"^[[a]$", "[", true),
            (r"^[]a]$", "]", true),
            (r"^[a&&b]$", "&", true),
            (r"^[a~~b]+$", "~a", true),
            (r"^[[:alpha:]]+$", "ab", true),
            (r"^\Qa.b\E$", "a.b", true),
            (r"^\Qa.b\E$", "axb", false),
            (r"^[^\s]+$", "a b", false),
            (r"\bfoo\b", "a foo b", true),
            (r"^(?i)ab$", "AB", true),
            (r"^[+--]$", ",", true),
            (r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "my-name", true),
        ] {
            let compiled = Pattern::new(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
            assert_eq!(compiled.is_match(text), want, "{pattern} {text:?}");
        }
        assert!(Pattern::new("(").is_err());
        assert!(
            Pattern::new("(((a{900}){900}){900})").is_err(),
            "must not eat memory"
        );
    }
}

//! Templates: text with paths in braces, as `kubectl get -o jsonpath=…` takes them.

use serde_json::Value;

use super::parse::{self, unquote};
use super::{JsonPathError, Step, find, to_text};

/// How deep ranges may nest.
const MAX_DEPTH: usize = 8;

/// A compiled template.
#[derive(Debug, Clone, PartialEq)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq)]
enum Part {
    Text(String),
    Path(Vec<Step>),
    Range(Vec<Step>, Vec<Part>),
}

impl Template {
    /// Compiles a template.
    ///
    /// # Errors
    /// [`JsonPathError::Syntax`]
    pub fn parse(text: &str) -> Result<Self, JsonPathError> {
        let mut rest = text;
        let parts = parts(&mut rest, 0)?;
        Ok(Self { parts })
    }

    /// Fills it in; several results of one path are joined by spaces.
    ///
    /// # Errors
    /// [`JsonPathError::Evaluate`]
    pub fn render(&self, value: &Value) -> Result<String, JsonPathError> {
        let mut out = String::new();
        render(&self.parts, value, &mut out)?;
        Ok(out)
    }
}

fn syntax<T>(text: impl Into<String>) -> Result<T, JsonPathError> {
    Err(JsonPathError::Syntax(text.into()))
}

/// Parts up to the end of the text, or to `{end}` inside a range.
fn parts(rest: &mut &str, depth: usize) -> Result<Vec<Part>, JsonPathError> {
    if depth > MAX_DEPTH {
        return syntax(format!("ranges may not nest deeper than {MAX_DEPTH} levels"));
    }
    let mut parts = Vec::new();
    loop {
        let Some(open) = rest.find('{') else {
            if depth > 0 {
                return syntax("unclosed range, {end} is missing");
            }
            if !rest.is_empty() {
                parts.push(Part::Text((*rest).to_owned()));
            }
            *rest = "";
            return Ok(parts);
        };
        if open > 0 {
            parts.push(Part::Text(rest[..open].to_owned()));
        }
        let action = action(&rest[open + 1..])?;
        *rest = &rest[open + action.len() + 2..];
        let action = action.trim();
        if action == "end" {
            if depth == 0 {
                return syntax("not in range, nothing to end");
            }
            return Ok(parts);
        }
        if let Some(path) = action.strip_prefix("range ") {
            let steps = parse::steps(path.trim())?;
            let inner = self::parts(rest, depth + 1)?;
            parts.push(Part::Range(steps, inner));
            continue;
        }
        let quoted = ['"', '\''].into_iter().find_map(|quote| {
            let inner = action.strip_prefix(quote)?.strip_suffix(quote)?;
            Some(unquote(inner))
        });
        parts.push(match quoted {
            Some(text) => Part::Text(text),
            None => Part::Path(parse::steps(action)?),
        });
    }
}

/// What stands before the brace that closes; braces in quotes are skipped.
fn action(text: &str) -> Result<&str, JsonPathError> {
    let (mut quote, mut escaped) = (None, false);
    for (at, c) in text.char_indices() {
        match (c, quote) {
            _ if escaped => escaped = false,
            ('\\', _) => escaped = true,
            (c, Some(open)) if c == open => quote = None,
            (_, Some(_)) => {}
            ('"' | '\'', None) => quote = Some(c),
            ('}', None) => return Ok(&text[..at]),
            (_, None) => {}
        }
    }
    syntax("unclosed action")
}

fn render(parts: &[Part], value: &Value, out: &mut String) -> Result<(), JsonPathError> {
    for part in parts {
        match part {
            Part::Text(text) => out.push_str(text),
            Part::Path(steps) => {
                let found = find::walk(vec![value], steps, value)?;
                let texts: Vec<String> = found.into_iter().map(to_text).collect();
                out.push_str(&texts.join(" "));
            }
            Part::Range(steps, inner) => {
                for item in find::walk(vec![value], steps, value)? {
                    render(inner, item, out)?;
                }
            }
        }
    }
    Ok(())
}

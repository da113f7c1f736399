//! Field selectors: `metadata.name=a,spec.nodeName!=b`, with `\` before a backslash, comma or equals sign that
//! belongs to a value.

use std::fmt;

use super::SelectorError;

/// How a field is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FieldOp {
    /// `=` and `==`
    Eq,
    /// `!=`
    NotEq,
}

/// One term of a field selector.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldRequirement {
    /// The field's path, such as `spec.nodeName`.
    pub path: String,
    /// The comparison.
    pub op: FieldOp,
    /// The value; an absent field counts as empty.
    pub value: String,
}

/// Terms that must all hold.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FieldSelector {
    requirements: Vec<FieldRequirement>,
}

impl FieldSelector {
    /// Selects every object.
    pub fn everything() -> Self {
        Self::default()
    }

    /// All of these terms.
    pub fn of(requirements: impl IntoIterator<Item = FieldRequirement>) -> Self {
        Self {
            requirements: requirements.into_iter().collect(),
        }
    }

    /// Exactly the object of this name.
    pub fn name(name: &str) -> Self {
        Self::of([FieldRequirement {
            path: "metadata.name".to_owned(),
            op: FieldOp::Eq,
            value: name.to_owned(),
        }])
    }

    /// Reads `?fieldSelector=`; the terms are sorted by their text.
    ///
    /// # Errors
    /// [`SelectorError::Syntax`] for a term without an operator or a value with a bad escape.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut requirements = Vec::new();
        let mut terms = terms(text);
        terms.sort_unstable();
        for term in terms {
            if term.is_empty() {
                continue;
            }
            let Some((path, op, value)) = split(term) else {
                return Err(SelectorError::Syntax(format!(
                    "invalid selector: '{text}'; can't understand '{term}'"
                )));
            };
            let value = unescape(value)?;
            // Kubernetes takes `=` for no term at all.
            if !path.is_empty() || !value.is_empty() {
                requirements.push(FieldRequirement {
                    path: path.to_owned(),
                    op,
                    value,
                });
            }
        }
        Ok(Self { requirements })
    }

    /// The terms.
    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.requirements
    }

    /// Whether it selects every object.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The name that an object must have to be selected, if there is one such term.
    pub fn exact_name(&self) -> Option<&str> {
        self.exact("metadata.name")
    }

    /// The value that a field must have for an object to be selected, if there is one such term.
    pub fn exact(&self, path: &str) -> Option<&str> {
        self.requirements
            .iter()
            .find(|requirement| requirement.op == FieldOp::Eq && requirement.path == path)
            .map(|requirement| requirement.value.as_str())
    }

    /// Whether fields, given as a lookup (`None`: absent, compared as the empty text), are selected.
    pub fn matches<'a>(&self, field: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements.iter().all(|requirement| {
            let equal = field(&requirement.path).unwrap_or_default() == requirement.value;
            equal == (requirement.op == FieldOp::Eq)
        })
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, FieldRequirement { path, op, value }) in self.requirements.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            let op = match op {
                FieldOp::Eq => "=",
                FieldOp::NotEq => "!=",
            };
            write!(f, "{path}{op}{}", escape(value))?;
        }
        Ok(())
    }
}

/// Splits at commas that no backslash precedes.
fn terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b',' => {
                terms.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

fn split(term: &str) -> Option<(&str, FieldOp, &str)> {
    for (at, _) in term.char_indices() {
        let rest = &term[at..];
        for (sign, op) in [("!=", FieldOp::NotEq), ("==", FieldOp::Eq), ("=", FieldOp::Eq)] {
            if let Some(value) = rest.strip_prefix(sign) {
                return Some((&term[..at], op, value));
            }
        }
    }
    None
}

/// Puts a backslash before what would end a value.
pub(super) fn escape(value: &str) -> String {
    let mut escaped = String::with_capacity(value.len());
    for c in value.chars() {
        if matches!(c, '\\' | ',' | '=') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

fn unescape(value: &str) -> Result<String, SelectorError> {
    let bad = |sequence: &str| {
        SelectorError::Syntax(format!(
            "invalid field selector: invalid escape sequence: {sequence}"
        ))
    };
    let mut plain = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => plain.push(c),
                Some(c) => return Err(bad(&format!("\\{c}"))),
                None => return Err(bad("\\")),
            },
            ',' | '=' => {
                return Err(SelectorError::Syntax(format!(
                    "invalid field selector: unescaped character in value: {}",
                    u32::from(c)
                )));
            }
            c => plain.push(c),
        }
    }
    Ok(plain)
}

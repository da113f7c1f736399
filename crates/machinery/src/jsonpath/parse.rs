//! Reading a path.

use serde_json::Value;

use super::{Comparison, Condition, JsonPathError, Operand, Slice, Step};

/// How deep filters and unions may nest.
const MAX_DEPTH: usize = 8;
/// How long a path may be, in bytes.
const MAX_LENGTH: usize = 16 * 1024;

fn syntax<T>(text: impl Into<String>) -> Result<T, JsonPathError> {
    Err(JsonPathError::Syntax(text.into()))
}

pub(super) fn steps(text: &str) -> Result<Vec<Step>, JsonPathError> {
    if text.len() > MAX_LENGTH {
        return syntax(format!("a path may not be longer than {MAX_LENGTH} bytes"));
    }
    nested(text, 0)
}

fn nested(text: &str, depth: usize) -> Result<Vec<Step>, JsonPathError> {
    if depth > MAX_DEPTH {
        return syntax(format!("a path may not nest deeper than {MAX_DEPTH} levels"));
    }
    let mut steps = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("..") {
            if steps.last() == Some(&Step::Recursive) {
                return syntax("invalid multiple recursive descent");
            }
            steps.push(Step::Recursive);
            rest = after;
            if rest.starts_with(|c: char| c == '_' || c == '*' || c.is_alphanumeric()) {
                rest = field(rest, &mut steps);
            }
            continue;
        }
        match first {
            ' ' | '@' | '$' => rest = &rest[1..],
            '.' => rest = field(&rest[1..], &mut steps),
            '[' => {
                let inner = bracketed(&rest[1..])?;
                let after = &rest[inner.len() + 2..];
                let filter = inner
                    .strip_prefix("?(")
                    .and_then(|inner| inner.trim_end().strip_suffix(')'));
                match filter {
                    Some(conditions) => steps.push(Step::Filter(filter_of(conditions, depth)?)),
                    None => array(inner, depth, &mut steps)?,
                }
                rest = after;
            }
            other if other == '_' || other.is_alphanumeric() => {
                let word: String = rest
                    .chars()
                    .take_while(|c| *c == '_' || c.is_alphanumeric())
                    .collect();
                return syntax(format!("unrecognized identifier {word}"));
            }
            other => return syntax(format!("unrecognized character in action: {other:?}")),
        }
    }
    Ok(steps)
}

fn ends_field(c: char) -> bool {
    matches!(
        c,
        ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}'
    )
}

/// Reads a field's name (a backslash takes the next character as it is) and answers what follows.
fn field<'a>(text: &'a str, steps: &mut Vec<Step>) -> &'a str {
    let mut name = String::new();
    let mut chars = text.char_indices();
    let mut rest = "";
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => name.extend(chars.next().map(|(_, c)| c)),
            c if ends_field(c) => {
                rest = &text[at..];
                break;
            }
            c => name.push(c),
        }
    }
    match name.as_str() {
        "*" => steps.push(Step::Wildcard),
        // A lone dot: the value itself.
        "" => {}
        _ => steps.push(Step::Field(name)),
    }
    rest
}

/// What stands before the bracket that closes one already open; quotes and brackets inside are skipped.
fn bracketed(text: &str) -> Result<&str, JsonPathError> {
    let (mut depth, mut quote, mut escaped) = (0_usize, None, false);
    for (at, c) in text.char_indices() {
        match (c, quote) {
            _ if escaped => escaped = false,
            ('\\', _) => escaped = true,
            (c, Some(open)) if c == open => quote = None,
            (_, Some(_)) => {}
            ('"' | '\'', None) => quote = Some(c),
            ('[', None) => depth += 1,
            (']', None) if depth == 0 => return Ok(&text[..at]),
            (']', None) => depth -= 1,
            (_, None) => {}
        }
    }
    syntax(if text.starts_with('?') {
        "unterminated filter"
    } else {
        "unterminated array"
    })
}

/// Splits outside of quotes and brackets.
fn split_at<'a>(text: &'a str, separator: &str) -> Vec<&'a str> {
    let mut parts = Vec::new();
    let (mut start, mut skip, mut depth, mut quote, mut escaped) = (0, 0, 0_usize, None, false);
    for (at, c) in text.char_indices() {
        if at < skip {
            continue;
        }
        match (c, quote) {
            _ if escaped => escaped = false,
            ('\\', _) => escaped = true,
            (c, Some(open)) if c == open => quote = None,
            (_, Some(_)) => {}
            ('"' | '\'', None) => quote = Some(c),
            ('[' | '(', None) => depth += 1,
            (']' | ')', None) => depth = depth.saturating_sub(1),
            (_, None) if depth == 0 && text[at..].starts_with(separator) => {
                parts.push(&text[start..at]);
                start = at + separator.len();
                skip = start;
            }
            (_, None) => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn array(inner: &str, depth: usize, steps: &mut Vec<Step>) -> Result<(), JsonPathError> {
    let parts = split_at(inner, ",");
    if parts.len() > 1 {
        let mut union = Vec::new();
        for part in parts {
            let mut branch = Vec::new();
            if depth >= MAX_DEPTH {
                return syntax(format!("a path may not nest deeper than {MAX_DEPTH} levels"));
            }
            array(part.trim(), depth + 1, &mut branch)?;
            union.push(branch);
        }
        steps.push(Step::Union(union));
        return Ok(());
    }
    for quote in ['\'', '"'] {
        let key = inner
            .strip_prefix(quote)
            .and_then(|inner| inner.strip_suffix(quote));
        if let Some(key) = key {
            let path = nested(&format!(".{key}"), depth + 1).unwrap_or_default();
            let literal = key.replace('\\', "");
            steps.push(match path.as_slice() {
                [Step::Field(name)] if *name == literal => Step::Field(literal),
                _ => Step::KeyOrPath(literal, path),
            });
            return Ok(());
        }
    }
    steps.push(Step::Slice(slice(inner)?));
    Ok(())
}

fn slice(text: &str) -> Result<Slice, JsonPathError> {
    if text == "*" {
        return Ok(Slice {
            start: None,
            end: None,
            step: None,
            single: false,
        });
    }
    let parts: Vec<&str> = text.split(':').collect();
    let number = |part: &str| -> Result<Option<i64>, JsonPathError> {
        if part.is_empty() {
            return Ok(None);
        }
        match part.parse::<i32>() {
            Ok(number) => Ok(Some(i64::from(number))),
            Err(_) => syntax(format!("invalid array index {text}")),
        }
    };
    match parts.as_slice() {
        [single] => match number(single)? {
            Some(index) => Ok(Slice {
                start: Some(index),
                end: None,
                step: None,
                single: true,
            }),
            None => syntax(format!("invalid array index {text}")),
        },
        [start, end] | [start, end, ""] => Ok(Slice {
            start: number(start)?,
            end: number(end)?,
            step: None,
            single: false,
        }),
        [start, end, step] => Ok(Slice {
            start: number(start)?,
            end: number(end)?,
            step: number(step)?,
            single: false,
        }),
        _ => syntax(format!("invalid array index {text}")),
    }
}

fn filter_of(text: &str, depth: usize) -> Result<Vec<Condition>, JsonPathError> {
    split_at(text, "&&")
        .into_iter()
        .map(|term| condition(term.trim(), depth))
        .collect()
}

fn condition(text: &str, depth: usize) -> Result<Condition, JsonPathError> {
    for (sign, comparison) in [
        ("==", Comparison::Equal),
        ("!=", Comparison::NotEqual),
        ("<=", Comparison::LessOrEqual),
        (">=", Comparison::GreaterOrEqual),
        ("<", Comparison::Less),
        (">", Comparison::Greater),
    ] {
        if let [left, right] = split_at(text, sign).as_slice() {
            if left.trim().is_empty() || right.trim().is_empty() {
                return syntax(format!("incomplete filter {text}"));
            }
            return Ok(Condition {
                left: operand(left.trim(), depth)?,
                right: Some((comparison, operand(right.trim(), depth)?)),
            });
        }
    }
    if split_at(text, "=").len() > 1 {
        return syntax("unrecognized filter operator =");
    }
    Ok(Condition {
        left: operand(text, depth)?,
        right: None,
    })
}

fn operand(text: &str, depth: usize) -> Result<Operand, JsonPathError> {
    for quote in ['\'', '"'] {
        if let Some(rest) = text.strip_prefix(quote) {
            return match rest.strip_suffix(quote) {
                Some(inner) => Ok(Operand::Literal(Value::String(unquote(inner)))),
                None => syntax("unterminated quoted string"),
            };
        }
    }
    if text == "true" || text == "false" {
        return Ok(Operand::Literal(Value::Bool(text == "true")));
    }
    if text.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '+') {
        let plain = text.trim_start_matches('+');
        if let Ok(whole) = plain.parse::<i64>() {
            return Ok(Operand::Literal(Value::from(whole)));
        }
        return match plain.parse::<f64>() {
            Ok(float) => Ok(Operand::Literal(Value::from(float))),
            Err(_) => syntax(format!("cannot parse number {text}")),
        };
    }
    nested(text, depth + 1).map(Operand::Path)
}

/// Resolves backslashes in a quoted text.
pub(super) fn unquote(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            plain.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => plain.push('\n'),
            Some('t') => plain.push('\t'),
            Some('r') => plain.push('\r'),
            Some(other) => plain.push(other),
            None => plain.push('\\'),
        }
    }
    plain
}

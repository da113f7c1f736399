//! Tokens of an expression.

use serde_json::Value;

use super::CelError;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    Literal(Value),
    Ident(String),
    /// An operator or bracket.
    Sign(&'static str),
}

const SIGNS: [&str; 25] = [
    "&&", "||", "==", "!=", "<=", ">=", "<", ">", "!", "+", "-", "*", "/", "%", "?", ":", "(", ")", "[", "]",
    "{", "}", ",", ".", ";",
];

fn syntax<T>(text: impl Into<String>) -> Result<T, CelError> {
    Err(CelError::Syntax(text.into()))
}

pub(super) fn tokens(text: &str) -> Result<Vec<Token>, CelError> {
    let mut tokens = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        if let Some(comment) = rest.strip_prefix("//") {
            rest = comment.split_once('\n').map_or("", |(_, rest)| rest);
            continue;
        }
        let Some(first) = rest.chars().next() else {
            return Ok(tokens);
        };
        if let Some((token, after)) = string(rest)? {
            tokens.push(token);
            rest = after;
        } else if first.is_ascii_digit()
            || (first == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit()))
        {
            let (token, after) = number(rest)?;
            tokens.push(token);
            rest = after;
        } else if first == '_' || first.is_ascii_alphabetic() {
            let end = rest
                .find(|c: char| c != '_' && !c.is_ascii_alphanumeric())
                .unwrap_or(rest.len());
            tokens.push(match &rest[..end] {
                "true" => Token::Literal(Value::Bool(true)),
                "false" => Token::Literal(Value::Bool(false)),
                "null" => Token::Literal(Value::Null),
                word => Token::Ident(word.to_owned()),
            });
            rest = &rest[end..];
        } else if let Some(sign) = SIGNS.into_iter().find(|sign| rest.starts_with(sign)) {
            tokens.push(Token::Sign(sign));
            rest = &rest[sign.len()..];
        } else {
            return syntax(format!("token recognition error at: '{first}'"));
        }
    }
}

fn number(text: &str) -> Result<(Token, &str), CelError> {
    if let Some(hex) = text.strip_prefix("0x") {
        let end = hex.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(hex.len());
        return match i64::from_str_radix(&hex[..end], 16) {
            Ok(number) => Ok((Token::Literal(Value::from(number)), &hex[end..])),
            Err(_) => syntax(format!("bad number {text}")),
        };
    }
    let digits = |from: usize| from + text[from..].bytes().take_while(u8::is_ascii_digit).count();
    let mut end = digits(0);
    let mut float = false;
    if text[end..].starts_with('.') && text[end + 1..].starts_with(|c: char| c.is_ascii_digit()) {
        float = true;
        end = digits(end + 1);
    }
    if text[end..].starts_with(['e', 'E']) {
        let sign = usize::from(text[end + 1..].starts_with(['+', '-']));
        let after = digits(end + 1 + sign);
        if after > end + 1 + sign {
            float = true;
            end = after;
        }
    }
    let literal = if float {
        text[..end].parse::<f64>().ok().map(Value::from)
    } else {
        text[..end].parse::<i64>().ok().map(Value::from)
    };
    let rest = text[end..].strip_prefix(['u', 'U']).unwrap_or(&text[end..]);
    match literal {
        Some(literal) => Ok((Token::Literal(literal), rest)),
        None => syntax(format!("bad number {}", &text[..end])),
    }
}

/// A quoted text, raw or not, in one or three quotes of either kind.
fn string(text: &str) -> Result<Option<(Token, &str)>, CelError> {
    let (raw, body) = match text.strip_prefix(['r', 'R']) {
        Some(body) if body.starts_with(['"', '\'']) => (true, body),
        Some(_) | None => (false, text),
    };
    let Some(quote) = ["\"\"\"", "'''", "\"", "'"]
        .into_iter()
        .find(|quote| body.starts_with(quote))
    else {
        return Ok(None);
    };
    let mut out = String::new();
    let mut rest = &body[quote.len()..];
    loop {
        if let Some(after) = rest.strip_prefix(quote) {
            return Ok(Some((Token::Literal(Value::String(out)), after)));
        }
        let mut chars = rest.chars();
        match chars.next() {
            None => return syntax("unterminated text"),
            Some('\\') if !raw => {
                let escape = chars.next();
                rest = chars.as_str();
                match escape {
                    Some('n') => out.push('\n'),
                    Some('r') => out.push('\r'),
                    Some('t') => out.push('\t'),
                    Some('a') => out.push('\u{7}'),
                    Some('b') => out.push('\u{8}'),
                    Some('f') => out.push('\u{c}'),
                    Some('v') => out.push('\u{b}'),
                    Some(c @ ('\\' | '"' | '\'' | '`' | '?')) => out.push(c),
                    Some(kind @ ('x' | 'X' | 'u' | 'U')) => {
                        let length = match kind {
                            'u' => 4,
                            'U' => 8,
                            _ => 2,
                        };
                        let code = rest
                            .get(..length)
                            .and_then(|hex| u32::from_str_radix(hex, 16).ok());
                        match code.and_then(char::from_u32) {
                            Some(c) => out.push(c),
                            None => return syntax("bad escape in a text"),
                        }
                        rest = &rest[length..];
                    }
                    Some(_) | None => return syntax("bad escape in a text"),
                }
            }
            Some(c) => {
                out.push(c);
                rest = chars.as_str();
            }
        }
    }
}

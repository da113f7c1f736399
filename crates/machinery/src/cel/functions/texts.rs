//! Functions of texts.

use super::super::CelError;
use super::super::meter::Meter;
use super::super::value::Val;
use super::{Made, fail};

/// A position in characters; `None` past the end.
fn position(value: &Val<'_>, limit: usize) -> Result<usize, CelError> {
    let at = value.whole().and_then(|at| usize::try_from(at).ok());
    match at.filter(|at| *at <= limit) {
        Some(at) => Ok(at),
        None => fail(format!("index out of range: {}", value.brief())),
    }
}

/// Where a part of a text was found, in characters.
fn found<'a>(at: Option<usize>, text: &str) -> Val<'a> {
    match at {
        Some(at) => Val::size(text[..at].chars().count()),
        None => Val::Int(-1),
    }
}

/// Where a character begins, in bytes.
fn byte_of(text: &str, at: usize) -> usize {
    text.char_indices().nth(at).map_or(text.len(), |(byte, _)| byte)
}

pub(super) fn texts<'a>(name: &str, values: &[Val<'a>], meter: &mut Meter<'_>) -> Made<'a> {
    let Some((Val::Text(text), rest)) = values.split_first() else {
        return Ok(None);
    };
    let length = || text.chars().count();
    let made = match (name, rest) {
        ("contains", [Val::Text(other)]) => Val::Bool(text.contains(&**other)),
        ("startsWith", [Val::Text(other)]) => Val::Bool(text.starts_with(&**other)),
        ("endsWith", [Val::Text(other)]) => Val::Bool(text.ends_with(&**other)),
        ("matches", [Val::Text(other)]) => Val::Bool(meter.pattern(other, text)?.is_match(text)),
        ("find", [Val::Text(other)]) => Val::text(meter.pattern(other, text)?.find_all(text, 1).concat()),
        ("findAll", [Val::Text(other)]) => find_all(text, other, usize::MAX, meter)?,
        ("findAll", [Val::Text(other), limit]) => {
            let limit = usize::try_from(limit.whole().unwrap_or(-1));
            find_all(text, other, limit.unwrap_or(usize::MAX), meter)?
        }
        ("lowerAscii", []) => Val::text(text.to_ascii_lowercase()),
        ("upperAscii", []) => Val::text(text.to_ascii_uppercase()),
        ("strings.quote", []) => {
            let quoted = crate::field::quote(text);
            meter.room(quoted.len())?;
            Val::text(quoted)
        }
        ("format", [arguments]) => match arguments.items() {
            Some(arguments) => Val::text(format_text(text, &arguments, meter)?),
            None => return Ok(None),
        },
        ("trim", []) => Val::text(text.trim()),
        ("reverse", []) => Val::text(text.chars().rev().collect::<String>()),
        ("charAt", [at]) => {
            let at = position(at, length())?;
            Val::text(text.chars().nth(at).map(String::from).unwrap_or_default())
        }
        ("indexOf", [Val::Text(other)]) => found(text.find(&**other), text),
        ("indexOf", [Val::Text(other), from]) => {
            let from = byte_of(text, position(from, length())?);
            found(text[from..].find(&**other).map(|at| at + from), text)
        }
        ("lastIndexOf", [Val::Text(other)]) => found(text.rfind(&**other), text),
        ("lastIndexOf", [Val::Text(other), until]) => {
            let until = position(until, length())?;
            let end = (byte_of(text, until) + other.len()).min(text.len());
            let head = text.get(..end).unwrap_or(text);
            found(head.rfind(&**other), text)
        }
        ("replace", [Val::Text(from), Val::Text(to)]) => replace(text, from, to, usize::MAX, meter)?,
        ("replace", [Val::Text(from), Val::Text(to), limit]) => {
            let limit = usize::try_from(limit.whole().unwrap_or(-1));
            replace(text, from, to, limit.unwrap_or(usize::MAX), meter)?
        }
        ("split", [Val::Text(between)]) => split(text, between, -1, meter)?,
        ("split", [Val::Text(between), limit]) => split(text, between, limit.whole().unwrap_or(-1), meter)?,
        ("substring", [start]) => {
            let start = position(start, length())?;
            Val::text(&text[byte_of(text, start)..])
        }
        ("substring", [start, end]) => {
            let (start, end) = (position(start, length())?, position(end, length())?);
            if start > end {
                return fail(format!("invalid substring range. start: {start}, end: {end}"));
            }
            Val::text(&text[byte_of(text, start)..byte_of(text, end)])
        }
        _ => return Ok(None),
    };
    Ok(Some(made))
}

fn find_all<'a>(text: &str, pattern: &str, limit: usize, meter: &mut Meter<'_>) -> Result<Val<'a>, CelError> {
    let pattern = meter.pattern(pattern, text)?;
    let all = pattern.find_all(text, limit.min(meter.left().saturating_add(1)));
    meter.step(all.len())?;
    Ok(Val::list(all.into_iter().map(Val::text).collect()))
}

fn replace<'a>(
    text: &str,
    from: &str,
    to: &str,
    limit: usize,
    meter: &mut Meter<'_>,
) -> Result<Val<'a>, CelError> {
    let count = text.matches(from).take(limit).count();
    let kept = text.len().saturating_sub(count.saturating_mul(from.len()));
    meter.room(count.saturating_mul(to.len()).saturating_add(kept))?;
    Ok(Val::text(text.replacen(from, to, limit)))
}

/// `"%s is %d".format([…])`
fn format_text(template: &str, arguments: &[Val<'_>], meter: &mut Meter<'_>) -> Result<String, CelError> {
    let mut out = String::new();
    let mut chars = template.chars();
    let mut arguments = arguments.iter();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut verb = chars.next();
        let mut digits = 6;
        if verb == Some('.') {
            digits = 0;
            verb = chars.next();
            while let Some(digit) = verb.and_then(|c| c.to_digit(10)) {
                digits = (digits * 10 + digit as usize).min(100);
                verb = chars.next();
            }
        }
        if verb == Some('%') {
            out.push('%');
            continue;
        }
        let Some(value) = arguments.next() else {
            return fail("index out of range: too few arguments of format");
        };
        let wrong = || CelError::Evaluate(format!("format: {} does not fit its clause", value.kind()));
        out.push_str(&match verb {
            Some('s') => meter.show(value)?,
            Some('d') => value.whole().ok_or_else(wrong)?.to_string(),
            Some('f') => format!("{:.digits$}", value.float().ok_or_else(wrong)?),
            Some('e') => format!("{:.digits$e}", value.float().ok_or_else(wrong)?),
            Some('b') => format!("{:b}", value.whole().ok_or_else(wrong)?),
            Some('o') => format!("{:o}", value.whole().ok_or_else(wrong)?),
            Some('x') => format!("{:x}", value.whole().ok_or_else(wrong)?),
            Some('X') => format!("{:X}", value.whole().ok_or_else(wrong)?),
            Some(_) | None => return fail("unrecognized formatting clause"),
        });
        meter.fits(out.len())?;
    }
    Ok(out)
}

fn split<'a>(text: &str, between: &str, limit: i64, meter: &mut Meter<'_>) -> Result<Val<'a>, CelError> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut parts: Vec<Val<'a>> = Vec::new();
    if limit == 0 {
        return Ok(Val::list(parts));
    }
    meter.step(text.matches(between).take(limit).count())?;
    if between.is_empty() {
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            if parts.len() + 1 == limit {
                parts.push(Val::text(rest));
                break;
            }
            parts.push(Val::text(String::from(c)));
            rest = &rest[c.len_utf8()..];
        }
    } else {
        parts.extend(text.splitn(limit, between).map(Val::text));
    }
    Ok(Val::list(parts))
}

//! What a plain YAML 1.1 scalar means, and how Go writes floating point numbers.

/// The meaning of a plain (unquoted, untagged) scalar.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Scalar {
    Null,
    Bool(bool),
    Int(i64),
    Large(u64),
    Float(f64),
    /// Looks like a date or a time: read as text, but quoted when written.
    Timestamp,
    Text,
}

/// Finds the meaning of a plain scalar.
pub(super) fn resolve(text: &str) -> Scalar {
    match text.as_bytes().first() {
        None => Scalar::Null,
        Some(b'0'..=b'9' | b'+' | b'-') => number(text),
        Some(b'.') => dotted(text),
        Some(b'~' | b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O') => word(text),
        Some(_) => Scalar::Text,
    }
}

fn word(text: &str) -> Scalar {
    match text {
        "~" | "null" | "Null" | "NULL" => Scalar::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Scalar::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Scalar::Bool(false)
        }
        _ => Scalar::Text,
    }
}

fn dotted(text: &str) -> Scalar {
    match text {
        ".nan" | ".NaN" | ".NAN" => return Scalar::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" => return Scalar::Float(f64::INFINITY),
        _ => {}
    }
    // underscores may only stand between two digits here
    let bytes = text.as_bytes();
    let placed = bytes.iter().enumerate().all(|(i, b)| {
        *b != b'_'
            || (i > 0 && bytes[i - 1].is_ascii_digit() && bytes.get(i + 1).is_some_and(u8::is_ascii_digit))
    });
    if placed {
        float(&text.replace('_', ""))
    } else {
        Scalar::Text
    }
}

fn number(text: &str) -> Scalar {
    match text {
        "+.inf" | "+.Inf" | "+.INF" => return Scalar::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => return Scalar::Float(f64::NEG_INFINITY),
        _ => {}
    }
    if is_timestamp(text) {
        return Scalar::Timestamp;
    }
    let plain = if text.contains('_') {
        text.replace('_', "")
    } else {
        text.to_owned()
    };
    integer(&plain).unwrap_or_else(|| float(&plain))
}

/// An integer with an optional sign and base prefix; a leading zero means octal.
fn integer(plain: &str) -> Option<Scalar> {
    let (negative, signed, digits) = match plain.as_bytes().first()? {
        b'-' => (true, true, &plain[1..]),
        b'+' => (false, true, &plain[1..]),
        _ => (false, false, plain),
    };
    let bytes = digits.as_bytes();
    let (radix, digits) = match (bytes.first()?, bytes.get(1)) {
        (b'0', Some(b'x' | b'X')) => (16, &digits[2..]),
        (b'0', Some(b'o' | b'O')) => (8, &digits[2..]),
        (b'0', Some(b'b' | b'B')) => (2, &digits[2..]),
        (b'0', Some(_)) => (8, &digits[1..]),
        _ => (10, digits),
    };
    if !digits.as_bytes().first()?.is_ascii_alphanumeric() {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, radix).ok()?;
    if negative {
        return 0i64.checked_sub_unsigned(magnitude).map(Scalar::Int);
    }
    match i64::try_from(magnitude) {
        Ok(value) => Some(Scalar::Int(value)),
        Err(_) if signed => None,
        Err(_) => Some(Scalar::Large(magnitude)),
    }
}

/// A decimal floating point number: `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`.
fn float(plain: &str) -> Scalar {
    let unsigned = plain.strip_prefix(['-', '+']).unwrap_or(plain);
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => (&unsigned[..at], Some(&unsigned[at + 1..])),
        None => (unsigned, None),
    };
    let all_digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    let mantissa_fits = match mantissa.split_once('.') {
        Some(("", fraction)) => !fraction.is_empty() && all_digits(fraction),
        Some((whole, fraction)) => all_digits(whole) && all_digits(fraction),
        None => !mantissa.is_empty() && all_digits(mantissa),
    };
    let exponent_fits = exponent.is_none_or(|e| {
        let digits = e.strip_prefix(['-', '+']).unwrap_or(e);
        !digits.is_empty() && all_digits(digits)
    });
    if !(mantissa_fits && exponent_fits) {
        return Scalar::Text;
    }
    match plain.parse::<f64>() {
        Ok(value) if value.is_finite() => Scalar::Float(value),
        _ => Scalar::Text,
    }
}

/// Whether a text is a date (`2001-12-14`) or a time of a day of YAML 1.1.
pub(super) fn is_timestamp(text: &str) -> bool {
    let bytes = text.as_bytes();
    if bytes.len() < 6 || bytes[4] != b'-' || !bytes[..4].iter().all(u8::is_ascii_digit) {
        return false;
    }
    timestamp(text).is_some()
}

fn timestamp(text: &str) -> Option<()> {
    let year: i16 = text.get(..4)?.parse().ok()?;
    let rest = text.get(5..)?;
    let (month, rest) = short(rest)?;
    let (day, rest) = short(rest.strip_prefix('-')?)?;
    jiff::civil::Date::new(year, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok()?;
    if rest.is_empty() {
        return Some(());
    }
    let spaced = rest.starts_with(' ');
    let (hour, rest) = short(rest.strip_prefix(['T', 't', ' '])?)?;
    let (minute, rest) = short(rest.strip_prefix(':')?)?;
    let (second, mut rest) = short(rest.strip_prefix(':')?)?;
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    if let Some(fraction) = rest.strip_prefix(['.', ',']) {
        let end = fraction
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(fraction.len());
        if end == 0 {
            return None;
        }
        rest = &fraction[end..];
    }
    if spaced {
        return rest.is_empty().then_some(());
    }
    zone(rest).then_some(())
}

fn zone(text: &str) -> bool {
    if text == "Z" {
        return true;
    }
    let Some(text) = text.strip_prefix(['+', '-']) else {
        return false;
    };
    match text.split_once(':') {
        Some((hours, minutes)) => {
            let within = |s: &str, limit: u32| s.len() == 2 && s.parse::<u32>().is_ok_and(|n| n <= limit);
            within(hours, 24) && within(minutes, 60)
        }
        None => false,
    }
}

/// One or two digits, and what follows them.
fn short(text: &str) -> Option<(u32, &str)> {
    let length = text.bytes().take(2).take_while(u8::is_ascii_digit).count();
    let value = text.get(..length)?.parse().ok()?;
    Some((value, &text[length..]))
}

/// Whether a text looks like a number to the base of 60 (`1:20`), which older readers took for one.
pub(super) fn is_base_60(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if !unsigned.starts_with(|c: char| c.is_ascii_digit()) {
        return false;
    }
    let (whole, fraction) = match unsigned.split_once('.') {
        Some((whole, fraction)) => (whole, fraction),
        None => (unsigned, ""),
    };
    if !fraction.bytes().all(|b| b.is_ascii_digit() || b == b'_') {
        return false;
    }
    let mut parts = whole.split(':');
    let first = parts.next().unwrap_or_default();
    let mut more = false;
    for part in parts {
        more = true;
        let fits = match part.as_bytes() {
            [d] => d.is_ascii_digit(),
            [t, d] => (b'0'..=b'5').contains(t) && d.is_ascii_digit(),
            _ => false,
        };
        if !fits {
            return false;
        }
    }
    more && first.bytes().all(|b| b.is_ascii_digit() || b == b'_')
}

/// A finite number with the fewest digits, as Go's `'g'` format writes it: `1.5`, `1e+06`, `1e-05`.
pub(super) fn go_float(value: f64) -> String {
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..=5).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{mantissa}e{sign}{:02}", exponent.abs());
    }
    format!("{value}")
}

//! Reading a quantity's text.

use smol_str::SmolStr;

use super::{BINARY_LIMIT, Format, MANTISSA_LIMIT, Quantity, QuantityError};

/// How many decimal digits surely fit into 64 bits; Kubernetes keeps the text of such a number if it is already
/// in canonical form.
const SHORT: usize = 18;

struct Parts<'a> {
    negative: bool,
    /// Whether there is any digit, if only a zero.
    has_digits: bool,
    /// Without leading zeros.
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

fn split(text: &str) -> Result<Parts<'_>, QuantityError> {
    let (negative, rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        Some(_) | None => (false, text),
    };
    let has_digits = rest.trim_start_matches('.').starts_with(|c: char| c.is_ascii_digit());
    let rest = rest.trim_start_matches('0');
    let (whole, rest) = rest.split_at(digits(rest));
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(digits(rest)),
        None => ("", rest),
    };
    let letters = suffix
        .bytes()
        .take_while(|byte| b"eEinumkKMGTP".contains(byte))
        .count();
    let tail = &suffix[letters..];
    let tail = tail.strip_prefix(['+', '-']).unwrap_or(tail);
    if digits(tail) < tail.len() {
        return Err(QuantityError::Format);
    }
    Ok(Parts {
        negative,
        has_digits,
        whole,
        fraction,
        suffix,
    })
}

/// The suffix as a format and its power of 10 or 2.
fn interpret(suffix: &str) -> Result<(Format, i32), QuantityError> {
    let decimal = |exponent| Ok((Format::DecimalSi, exponent));
    let binary = |exponent| Ok((Format::BinarySi, exponent));
    match suffix {
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "" => decimal(0),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(10),
        "Mi" => binary(20),
        "Gi" => binary(30),
        "Ti" => binary(40),
        "Pi" => binary(50),
        "Ei" => binary(60),
        _ => suffix
            .strip_prefix(['e', 'E'])
            .and_then(|exponent| exponent.parse::<i32>().ok())
            // Far enough from the ends that no later sum overflows.
            .filter(|exponent| exponent.abs() < i32::MAX / 2)
            .map(|exponent| (Format::DecimalExponent, exponent))
            .ok_or(QuantityError::Suffix),
    }
}

pub(super) fn parse(text: &str) -> Result<Quantity, QuantityError> {
    if text.is_empty() {
        return Err(QuantityError::Format);
    }
    let parts = split(text)?;
    let (format, power) = interpret(parts.suffix)?;
    if !parts.has_digits && !is_short(&parts, format, power) {
        return Err(QuantityError::Numeric);
    }
    // Trailing zeros behind the point carry nothing.
    let fraction = parts.fraction.trim_end_matches('0');
    let places = i32::try_from(fraction.len()).map_err(|_| QuantityError::Numeric)?;
    let mantissa = mantissa(parts.whole, fraction)?;
    let (mut mantissa, exponent) = if format == Format::BinarySi {
        binary(mantissa, -places, power)?
    } else {
        (mantissa, power - places)
    };
    if parts.negative {
        mantissa = -mantissa;
    }
    let mut quantity = Quantity::new(mantissa, exponent, format).ok_or(QuantityError::Numeric)?;
    if format == Format::BinarySi && quantity.exponent < 0 && quantity.value().abs() <= 1 {
        quantity.format = Format::DecimalSi;
    }
    if keeps_text(&parts, format, power) {
        quantity.text = Some(SmolStr::new(text));
    }
    Ok(quantity)
}

fn mantissa(whole: &str, fraction: &str) -> Result<i128, QuantityError> {
    let mut number: i128 = 0;
    for byte in whole.bytes().chain(fraction.bytes()) {
        number = number * 10 + i128::from(byte - b'0');
        if number >= MANTISSA_LIMIT {
            return Err(QuantityError::Numeric);
        }
    }
    Ok(number)
}

/// A magnitude times a power of two, capped as Kubernetes caps it.
fn binary(mantissa: i128, exponent: i32, power: i32) -> Result<(i128, i32), QuantityError> {
    let whole = mantissa / 10_i128.checked_pow(exponent.unsigned_abs()).ok_or(QuantityError::Numeric)?;
    if whole.checked_mul(1 << power).is_none_or(|whole| whole > BINARY_LIMIT) {
        return Ok((BINARY_LIMIT, 0));
    }
    // Below the cap; a long fraction may still not fit.
    let product = mantissa.checked_mul(1 << power).ok_or(QuantityError::Numeric)?;
    let limit = 10_i128.checked_pow(exponent.unsigned_abs()).and_then(|factor| BINARY_LIMIT.checked_mul(factor));
    if limit.is_some_and(|limit| product > limit) {
        return Ok((BINARY_LIMIT, 0));
    }
    Ok((product, exponent))
}

fn whole_digits<'a>(parts: &Parts<'a>) -> &'a str {
    if parts.whole.is_empty() { "0" } else { parts.whole }
}

/// The power of ten of the last digit.
fn scale(parts: &Parts<'_>, power: i32) -> i32 {
    power.saturating_sub(i32::try_from(parts.fraction.len()).unwrap_or(i32::MAX / 2))
}

/// Whether Kubernetes reads it by its short way, which takes no digits for a zero and may keep the text.
fn is_short(parts: &Parts<'_>, format: Format, power: i32) -> bool {
    let whole = whole_digits(parts);
    match format {
        Format::BinarySi => {
            let room = 14 - i32::try_from(whole.len()).unwrap_or(i32::MAX / 2) - power * 3 / 10;
            parts.fraction.is_empty() && room >= 0
        }
        Format::DecimalSi | Format::DecimalExponent => {
            whole.len() + parts.fraction.len() <= SHORT && scale(parts, power) >= -9
        }
    }
}

/// Whether Kubernetes writes this text again as it came.
fn keeps_text(parts: &Parts<'_>, format: Format, power: i32) -> bool {
    if !is_short(parts, format, power) {
        return false;
    }
    let whole = whole_digits(parts);
    match format {
        Format::BinarySi => whole
            .parse::<i64>()
            .is_ok_and(|number| number & 7 != 0 && number.checked_mul(1_i64 << power).is_some()),
        Format::DecimalSi | Format::DecimalExponent => {
            let all = format!("{whole}{}", parts.fraction);
            scale(parts, power) % 3 == 0 && !all.ends_with("000") && !all.starts_with('0')
        }
    }
}

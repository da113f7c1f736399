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
    let has_digits = rest
        .trim_start_matches('.')
        .starts_with(|c: char| c.is_ascii_digit());
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
    let (mantissa, tens) = number(parts.whole, parts.fraction)?;
    let (mut mantissa, exponent) = if format == Format::BinarySi {
        binary(mantissa, tens, power)?
    } else {
        (mantissa, power.checked_add(tens).ok_or(QuantityError::Numeric)?)
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

/// The digits without zeros at the end, and the power of ten that goes with them.
fn number(whole: &str, fraction: &str) -> Result<(i128, i32), QuantityError> {
    let all = format!("{whole}{fraction}");
    let digits = all.trim_end_matches('0');
    let mut number: i128 = 0;
    for byte in digits.bytes() {
        number = number
            .checked_mul(10)
            .map(|number| number + i128::from(byte - b'0'))
            .filter(|&number| number < MANTISSA_LIMIT)
            .ok_or(QuantityError::Numeric)?;
    }
    let length = |text: &str| i32::try_from(text.len()).map_err(|_| QuantityError::Numeric);
    Ok((number, length(&all)? - length(digits)? - length(fraction)?))
}

/// A magnitude times a power of two, capped as Kubernetes caps it.
fn binary(mantissa: i128, tens: i32, power: i32) -> Result<(i128, i32), QuantityError> {
    let factor = 10_i128.checked_pow(tens.unsigned_abs());
    let product = mantissa.checked_mul(1 << power);
    if tens >= 0 {
        let product = match (product, factor) {
            (Some(0), _) => Some(0),
            (Some(product), Some(factor)) => product.checked_mul(factor),
            (_, None) | (None, _) => None,
        };
        return Ok((
            product.map_or(BINARY_LIMIT, |product| product.min(BINARY_LIMIT)),
            0,
        ));
    }
    let factor = factor.ok_or(QuantityError::Numeric)?;
    match product {
        Some(product)
            if BINARY_LIMIT
                .checked_mul(factor)
                .is_none_or(|limit| product <= limit) =>
        {
            Ok((product, tens))
        }
        Some(_) => Ok((BINARY_LIMIT, 0)),
        // Far above the cap, or a fraction too long to be exact.
        None if (mantissa / factor) >> (63 - power) > 0 => Ok((BINARY_LIMIT, 0)),
        None => Err(QuantityError::Numeric),
    }
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

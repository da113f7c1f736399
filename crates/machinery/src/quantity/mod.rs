//! Amounts of resources as Kubernetes writes them: `100m`, `1.5Gi`, `12e6`. Exact: a decimal mantissa of up to 38
//! digits and an exponent, never a float.

mod parse;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::fmt;

use serde_json::Value;
use smol_str::SmolStr;

/// Mantissas stay below this, so that two of equal length can be compared without overflow.
const MANTISSA_LIMIT: i128 = 10_i128.pow(38);
/// Nothing is smaller than a nano; it is rounded up, away from zero.
const SMALLEST: i32 = -9;
/// Binary amounts are capped here.
const BINARY_LIMIT: i128 = i64::MAX as i128;

/// Why a text is no quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// It has another form.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// The number has too many digits or none.
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    /// The suffix is not known.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// How an amount is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// `12M`: a suffix for a power of 1000.
    #[default]
    DecimalSi,
    /// `12Mi`: a suffix for a power of 1024.
    BinarySi,
    /// `12e6`
    DecimalExponent,
}

/// An exact amount that remembers how it was written. Two amounts are equal if their values are, whatever their
/// form.
#[derive(Debug, Clone, Default)]
pub struct Quantity {
    /// Not a multiple of 10 unless zero.
    mantissa: i128,
    /// A power of 10.
    exponent: i32,
    format: Format,
    /// What was read, where Kubernetes would write the same again.
    text: Option<SmolStr>,
}

impl Quantity {
    /// Reads an amount.
    ///
    /// # Errors
    /// [`QuantityError`]; a number of more than 38 significant digits counts as [`QuantityError::Numeric`].
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        parse::parse(text)
    }

    /// Reads an amount from a JSON text or number.
    ///
    /// # Errors
    /// [`QuantityError`]; anything but a text or number is [`QuantityError::Format`].
    pub fn from_json(value: &Value) -> Result<Self, QuantityError> {
        match value {
            Value::String(text) => Self::parse(text),
            Value::Number(number) => Self::parse(&number.to_string()),
            Value::Null => Ok(Self::zero()),
            Value::Bool(_) | Value::Array(_) | Value::Object(_) => Err(QuantityError::Format),
        }
    }

    /// Zero.
    pub fn zero() -> Self {
        Self::default()
    }

    /// This many units.
    pub fn from_units(units: i64, format: Format) -> Self {
        Self::new(i128::from(units), 0, format).unwrap_or_default()
    }

    /// This many thousandths.
    pub fn from_millis(millis: i64, format: Format) -> Self {
        Self::new(i128::from(millis), -3, format).unwrap_or_default()
    }

    /// Normalized; `None` if the mantissa is too long.
    fn new(mut mantissa: i128, mut exponent: i32, format: Format) -> Option<Self> {
        if exponent < SMALLEST {
            mantissa = divide_up(mantissa, SMALLEST.abs_diff(exponent));
            exponent = SMALLEST;
        }
        if mantissa == 0 {
            exponent = 0;
        } else {
            while mantissa % 10 == 0 {
                mantissa /= 10;
                exponent += 1;
            }
        }
        (mantissa.abs() < MANTISSA_LIMIT).then_some(Self {
            mantissa,
            exponent,
            format,
            text: None,
        })
    }

    /// How it is written.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Whether it is zero.
    pub fn is_zero(&self) -> bool {
        self.mantissa == 0
    }

    /// -1, 0 or 1.
    pub fn signum(&self) -> i32 {
        self.mantissa.signum() as i32
    }

    /// Whole units, rounded away from zero; the largest `i128` if there are more.
    pub fn value(&self) -> i128 {
        self.scaled(0)
    }

    /// Thousandths, rounded away from zero; the largest `i128` if there are more.
    pub fn milli(&self) -> i128 {
        self.scaled(-3)
    }

    /// Without what is smaller than a thousandth, rounded away from zero.
    #[must_use]
    pub fn rounded_to_milli(&self) -> Self {
        if self.exponent >= -3 {
            return self.clone();
        }
        // fewer digits than before always fit
        Self::new(self.milli(), -3, self.format).unwrap_or_default()
    }

    /// In units of a power of ten, rounded away from zero and capped.
    fn scaled(&self, exponent: i32) -> i128 {
        let cap = if self.mantissa < 0 { i128::MIN } else { i128::MAX };
        if self.exponent < exponent {
            return divide_up(self.mantissa, self.exponent.abs_diff(exponent));
        }
        if self.mantissa == 0 {
            return 0;
        }
        10_i128
            .checked_pow(self.exponent.abs_diff(exponent))
            .and_then(|factor| self.mantissa.checked_mul(factor))
            .unwrap_or(cap)
    }

    /// As a float, with what precision that has.
    pub fn as_f64(&self) -> f64 {
        self.mantissa as f64 * 10_f64.powi(self.exponent)
    }

    /// The sum, in the form of the first (of the second if the first is zero); `None` if it has too many digits.
    pub fn checked_add(&self, other: &Self) -> Option<Self> {
        let exponent = self.exponent.min(other.exponent);
        let aligned = |quantity: &Self| {
            if quantity.mantissa == 0 {
                return Some(0);
            }
            10_i128
                .checked_pow(quantity.exponent.abs_diff(exponent))
                .and_then(|factor| quantity.mantissa.checked_mul(factor))
        };
        let sum = aligned(self)?.checked_add(aligned(other)?)?;
        let format = if self.is_zero() { other.format } else { self.format };
        Self::new(sum, exponent, format)
    }

    /// The difference, in the form of the first (of the second if the first is zero); `None` if it has too many
    /// digits.
    pub fn checked_sub(&self, other: &Self) -> Option<Self> {
        self.checked_add(&other.negated())
    }

    /// So many times as much; `None` if that has too many digits.
    pub fn checked_mul(&self, times: i64) -> Option<Self> {
        let product = self.mantissa.checked_mul(i128::from(times))?;
        Self::new(product, self.exponent, self.format)
    }

    /// The same amount with the other sign.
    #[must_use]
    pub fn negated(&self) -> Self {
        Self {
            mantissa: -self.mantissa,
            text: None,
            ..self.clone()
        }
    }

    /// The number's digits and the power of ten, the latter a multiple of three, as large as possible.
    fn decimal_form(&self) -> (String, i32) {
        let mut exponent = self.exponent.div_euclid(3) * 3;
        if self.format != Format::DecimalExponent {
            exponent = exponent.min(18);
        }
        let zeros = self.exponent.abs_diff(exponent) as usize;
        (format!("{}{}", self.mantissa, "0".repeat(zeros)), exponent)
    }

    fn binary_form(&self) -> Option<(i128, usize)> {
        if self.exponent < 0 {
            return None;
        }
        let mut whole = self.scaled(0);
        if whole.abs() < 1024 || whole.abs() == i128::MAX {
            return None;
        }
        let mut power = 0;
        while whole % 1024 == 0 && power < 6 {
            whole /= 1024;
            power += 1;
        }
        Some((whole, power))
    }
}

/// Divides by a power of ten, rounding away from zero.
fn divide_up(mantissa: i128, digits: u32) -> i128 {
    match 10_i128.checked_pow(digits) {
        Some(factor) => {
            let whole = mantissa / factor;
            if mantissa % factor == 0 {
                whole
            } else {
                whole + mantissa.signum()
            }
        }
        None => mantissa.signum(),
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        let sign = self.mantissa.signum();
        if sign != other.mantissa.signum() || sign == 0 {
            return self.mantissa.signum().cmp(&other.mantissa.signum());
        }
        let size = |quantity: &Self| {
            let digits = quantity.mantissa.unsigned_abs().ilog10() as i32 + 1;
            i64::from(digits) + i64::from(quantity.exponent)
        };
        let order = size(self).cmp(&size(other)).then_with(|| {
            // As many digits before the point, so that the shorter mantissa grows to the other's length.
            let exponent = self.exponent.min(other.exponent);
            let grown = |quantity: &Self| {
                quantity.mantissa.unsigned_abs() * 10_u128.pow(quantity.exponent.abs_diff(exponent))
            };
            grown(self).cmp(&grown(other))
        });
        if sign > 0 { order } else { order.reverse() }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(text) = &self.text {
            return f.write_str(text);
        }
        if self.mantissa == 0 {
            return f.write_str("0");
        }
        let binary = match self.format {
            Format::BinarySi => self.binary_form(),
            Format::DecimalSi | Format::DecimalExponent => None,
        };
        if let Some((number, power)) = binary {
            let suffix = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][power];
            return write!(f, "{number}{suffix}");
        }
        let (number, exponent) = self.decimal_form();
        match (self.format, exponent) {
            (_, 0) => f.write_str(&number),
            (Format::DecimalExponent, _) => write!(f, "{number}e{exponent}"),
            (Format::DecimalSi | Format::BinarySi, _) => {
                let suffixes = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
                let at = usize::try_from(exponent / 3 + 3).unwrap_or_default();
                write!(f, "{number}{}", suffixes.get(at).copied().unwrap_or_default())
            }
        }
    }
}

impl std::str::FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        Self::parse(text)
    }
}

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn shown(text: &str) -> String {
    Quantity::parse(text).map_or_else(|error| format!("{error:?}"), |quantity| quantity.to_string())
}

#[test]
fn writes_the_canonical_form() {
    for (text, want) in [
        ("0", "0"),
        ("0Ki", "0"),
        ("1", "1"),
        ("100m", "100m"),
        ("0.1", "100m"),
        ("1.5", "1500m"),
        ("1000m", "1"),
        ("1000", "1k"),
        ("1500", "1500"),
        ("1500000", "1500k"),
        ("1.5Gi", "1536Mi"),
        ("1024", "1024"),
        ("1024Ki", "1Mi"),
        ("1025Ki", "1025Ki"),
        ("0.5Ki", "512"),
        ("0.5Mi", "512Ki"),
        ("1e3", "1e3"),
        ("1000e3", "1e6"),
        ("12e2", "1200"),
        ("1E5", "100e3"),
        ("1E", "1E"),
        ("1Ei", "1Ei"),
        ("1.1n", "2n"),
        ("0.1n", "1n"),
        ("-0.1n", "-1n"),
        ("-1.5", "-1500m"),
        ("1e-12", "1e-9"),
        ("1e-1000000", "1e-9"),
        ("1e100", "10e99"),
        ("9223372036854775807", "9223372036854775807"),
        ("9223372036854775808", "9223372036854775808"),
        ("8Ei", "9223372036854775807"),
        ("9000Pi", "9223372036854775807"),
        ("1.000000000000000000000000000000000000Ki", "1Ki"),
        (".5", "500m"),
        ("1.", "1."),
        ("007", "007"),
        ("1000E", "1000E"),
    ] {
        assert_eq!(shown(text), want, "{text}");
    }
}

#[test]
fn refuses_what_is_no_quantity() {
    for (text, want) in [
        ("", QuantityError::Format),
        ("abc", QuantityError::Format),
        ("1 ", QuantityError::Format),
        ("1.2.3", QuantityError::Format),
        ("1ki", QuantityError::Suffix),
        ("1e", QuantityError::Suffix),
        ("1Kib", QuantityError::Format),
        ("1e99999999999", QuantityError::Suffix),
        ("123456789012345678901234567890123456789", QuantityError::Numeric),
        ("--1", QuantityError::Suffix),
        ("é", QuantityError::Format),
    ] {
        assert_eq!(Quantity::parse(text).map(|_| ()), Err(want), "{text}");
    }
    assert!(Quantity::from_json(&json!(true)).is_err());
    assert_eq!(
        Quantity::from_json(&json!(0.5)).map(|quantity| quantity.milli()),
        Ok(500)
    );
}

#[test]
fn counts_units_and_thousandths() {
    for (text, value, milli) in [
        ("1500m", 2, 1500),
        ("-1500m", -2, -1500),
        ("1n", 1, 1),
        ("1Ki", 1024, 1_024_000),
        ("0", 0, 0),
        ("1e3", 1000, 1_000_000),
        ("1e100", i128::MAX, i128::MAX),
    ] {
        let quantity = Quantity::parse(text).expect(text);
        assert_eq!((quantity.value(), quantity.milli()), (value, milli), "{text}");
    }
}

#[test]
fn adds_and_takes_away_in_the_form_of_the_first() {
    let q = |text: &str| Quantity::parse(text).expect(text);
    for (left, right, sum, difference) in [
        ("1Gi", "1Mi", "1025Mi", "1023Mi"),
        ("100m", "1", "1100m", "-900m"),
        ("0", "1Gi", "1Gi", "-1Gi"),
        ("1e3", "1", "1001", "999"),
    ] {
        assert_eq!(q(left).checked_add(&q(right)).expect("fits").to_string(), sum);
        assert_eq!(
            q(left).checked_sub(&q(right)).expect("fits").to_string(),
            difference
        );
    }
    assert_eq!(
        q("1500m").checked_mul(3).map(|quantity| quantity.to_string()),
        Some("4500m".to_owned())
    );
    assert_eq!(q("1e60").checked_add(&q("1n")), None);
}

#[test]
fn compares_by_value() {
    let mut list: Vec<Quantity> = [
        "1Gi",
        "-1",
        "0",
        "1G",
        "1e9",
        "1n",
        "1e100",
        "-1e100",
        "999999999",
    ]
    .map(|text| Quantity::parse(text).expect(text))
    .to_vec();
    list.sort();
    let order: Vec<String> = list.iter().map(ToString::to_string).collect();
    assert_eq!(
        order,
        [
            "-10e99",
            "-1",
            "0",
            "1n",
            "999999999",
            "1G",
            "1e9",
            "1Gi",
            "10e99"
        ]
    );
    assert_eq!(Quantity::parse("1000m"), Quantity::parse("1"));
}

proptest! {
    #[test]
    fn reading_what_was_written_changes_nothing(number in -1_000_000_000i64..1_000_000_000, places in 0..6usize, suffix in 0..14usize) {
        let suffix = ["", "n", "u", "m", "k", "M", "G", "T", "Ki", "Mi", "Gi", "e3", "e-2", "E"][suffix];
        let digits = format!("{:08}", number.unsigned_abs());
        let (whole, fraction) = digits.split_at(digits.len() - places);
        let sign = if number < 0 { "-" } else { "" };
        let quantity = Quantity::parse(&format!("{sign}{whole}.{fraction}{suffix}")).expect("a quantity");
        let again = Quantity::parse(&quantity.to_string()).expect("its own text");
        prop_assert_eq!(&again, &quantity);
        prop_assert_eq!(Quantity::parse(&again.to_string()).expect("its own text").to_string(), again.to_string());
    }

    #[test]
    fn order_agrees_with_the_difference(left in -10_000i64..10_000, right in -10_000i64..10_000, shift in -3i32..4) {
        let left = Quantity::parse(&format!("{left}e{shift}")).expect("a quantity");
        let right = Quantity::from_units(right, Format::DecimalSi);
        let difference = left.checked_sub(&right).expect("fits");
        prop_assert_eq!(left.cmp(&right) as i32, difference.signum());
        prop_assert_eq!(difference.checked_add(&right), Some(left));
    }
}

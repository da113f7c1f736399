//! Query strings and percent-encoding.

use std::num::{IntErrorKind, ParseIntError};

use machinery::ApiError;
use serde_json::Value;

/// The parameters of a query string, in order, decoded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Parses `a=b&c=d`; what cannot be decoded is kept as it is.
    pub fn parse(text: &str) -> Self {
        Self(
            text.split('&')
                .filter(|pair| !pair.is_empty())
                .map(|pair| {
                    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                    (decode(key, true), decode(value, true))
                })
                .collect(),
        )
    }

    /// The first value of a parameter.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(candidate, _)| candidate == key)
            .map(|(_, value)| value.as_str())
    }

    /// Every value of a parameter.
    pub fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0
            .iter()
            .filter(move |(candidate, _)| candidate == key)
            .map(|(_, value)| value.as_str())
    }

    /// A boolean parameter, as Go's API machinery reads it: anything but `0` and `false` is on.
    pub fn flag(&self, key: &str) -> Option<bool> {
        self.get(key)
            .map(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
    }

    /// Whether a boolean parameter is on.
    pub fn is_on(&self, key: &str) -> bool {
        self.flag(key) == Some(true)
    }

    /// A whole number.
    ///
    /// # Errors
    /// 400, in the words of Go's `strconv`, for a value that is none, as an empty one.
    pub fn number(&self, key: &str) -> Result<Option<i64>, ApiError> {
        let number = |text: &str| {
            text.parse().map_err(|error: ParseIntError| {
                let overflows = matches!(
                    error.kind(),
                    IntErrorKind::PosOverflow | IntErrorKind::NegOverflow
                );
                let why = if overflows {
                    "value out of range"
                } else {
                    "invalid syntax"
                };
                let text = Value::from(text);
                ApiError::bad_request(format!("strconv.ParseInt: parsing {text}: {why}"))
            })
        };
        self.get(key).map(number).transpose()
    }
}

/// Decodes `%XX` (and `+` as a space where `form` says so). Bad escapes stay; invalid UTF-8 is replaced.
pub fn decode(text: &str, form: bool) -> String {
    if !text.bytes().any(|byte| byte == b'%' || (form && byte == b'+')) {
        return text.to_owned();
    }
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut index = 0;
    while index < bytes.len() {
        let hex = |offset: usize| {
            bytes
                .get(index + offset)
                .and_then(|byte| char::from(*byte).to_digit(16))
        };
        match (bytes[index], hex(1), hex(2)) {
            (b'%', Some(high), Some(low)) => {
                decoded.push((high * 16 + low) as u8);
                index += 3;
            }
            (b'+', _, _) if form => {
                decoded.push(b' ');
                index += 1;
            }
            (byte, _, _) => {
                decoded.push(byte);
                index += 1;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

/// The key that the end of a header's name stands for: in lower case, decoded; if one of its escapes is none, all of
/// them stay.
pub fn extra_key(suffix: &str) -> String {
    let lower = suffix.to_ascii_lowercase();
    let is_escape = |rest: &str| {
        let digits = rest.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    if lower.split('%').skip(1).all(is_escape) {
        decode(&lower, false)
    } else {
        lower
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn u14_keys_of_extra_headers() {
        for (suffix, key) in [
            ("Foo", "foo"),
            ("a%20b", "a b"),
            ("example.org%2Fscopes", "example.org/scopes"),
            ("%E4%BD%A0", "\u{4f60}"),
            ("a%zz%20", "a%zz%20"),
            ("50%", "50%"),
            ("%2", "%2"),
            ("a+b", "a+b"),
            ("", ""),
        ] {
            assert_eq!(extra_key(suffix), key, "{suffix}");
        }
    }

    #[test]
    fn decodes_parameters() {
        let query = Query::parse("labelSelector=a%3Db%2Cc&watch=1&x=a+b&flag&bad=%zz&off=false");
        assert_eq!(query.get("labelSelector"), Some("a=b,c"));
        assert_eq!(query.get("x"), Some("a b"));
        assert_eq!(query.get("bad"), Some("%zz"));
        assert!(query.is_on("watch") && query.is_on("flag"));
        assert!(!query.is_on("off") && !query.is_on("missing"));
        assert_eq!((query.flag("off"), query.flag("missing")), (Some(false), None));
    }
}

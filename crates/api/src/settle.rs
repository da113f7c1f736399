//! For how long edits of what belongs together are waited for: the annotation [`SETTLE`] and the flag `--settle`.

use std::fmt;
use std::time::Duration;

use machinery::meta;
use serde_json::Value;

use crate::annotations::SETTLE;

/// Where nobody says anything else.
pub const DEFAULT: Duration = Duration::from_millis(250);
/// The longest that may be asked for.
pub const LIMIT: Duration = Duration::from_secs(30);

/// Text that is no such time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidSettle(String);

impl fmt::Display for InvalidSettle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not a time such as 250ms or 2s, from 0 to {}s",
            self.0,
            LIMIT.as_secs()
        )
    }
}

impl std::error::Error for InvalidSettle {}

/// Reads `250ms`, `2s`, `0`.
///
/// # Errors
/// Anything else, and what is above [`LIMIT`].
pub fn parse(text: &str) -> Result<Duration, InvalidSettle> {
    let number = |digits: &str| {
        let is_plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_plain.then(|| digits.parse::<u64>().ok()).flatten()
    };
    let read = if text == "0" {
        Some(Duration::ZERO)
    } else if let Some(digits) = text.strip_suffix("ms") {
        number(digits).map(Duration::from_millis)
    } else {
        text.strip_suffix('s').and_then(number).map(Duration::from_secs)
    };
    read.filter(|time| *time <= LIMIT)
        .ok_or_else(|| InvalidSettle(text.to_owned()))
}

/// What a Subscription asks for; without a word of its own, or with one that makes no sense, the default.
pub fn of(subscription: &Value, default: Duration) -> Duration {
    asked(subscription).unwrap_or(default)
}

/// What a Subscription asks for, if that makes sense.
pub fn asked(subscription: &Value) -> Option<Duration> {
    parse(meta::annotation(subscription, SETTLE)?).ok()
}

/// What is wrong with what a Subscription asks for.
pub fn fault(subscription: &Value) -> Option<String> {
    let error = parse(meta::annotation(subscription, SETTLE)?).err()?;
    Some(format!("annotation {SETTLE}: {error}; the default counts"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reads_times() {
        for (text, expected) in [
            ("0", Some(0)),
            ("0s", Some(0)),
            ("250ms", Some(250)),
            ("2s", Some(2_000)),
            ("30s", Some(30_000)),
            ("31s", None),
            ("2", None),
            ("", None),
            ("s", None),
            ("-1s", None),
            ("+1s", None),
            ("1.5s", None),
            ("1m", None),
            ("99999999999999999999s", None),
        ] {
            let read = parse(text).ok().map(|time| time.as_millis());
            assert_eq!(read, expected, "{text:?}");
            let object = json!({"metadata": {"annotations": {SETTLE: text}}});
            assert_eq!(
                of(&object, DEFAULT).as_millis(),
                expected.unwrap_or(250),
                "{text:?}"
            );
            assert_eq!(fault(&object).is_some(), expected.is_none(), "{text:?}");
        }
        assert_eq!((of(&json!({}), LIMIT), fault(&json!({}))), (LIMIT, None));
    }
}

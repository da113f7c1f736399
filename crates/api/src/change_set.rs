//! What objects that take effect together carry: the annotation [`CHANGE_SET`], and what the controllers note of it.

use std::fmt;

use machinery::{meta, names};
use serde_json::Value;

use crate::annotations::{CHANGE_SET, CHANGE_SETS_TAKEN, FROZEN_BY};

/// The largest set.
pub const LARGEST: usize = 1_000;

/// Text that is no change set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidSet(String);

impl fmt::Display for InvalidSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "annotation {CHANGE_SET}: {:?} is not NAME/COUNT, such as release-42/3, with a count from 1 to {LARGEST}",
            self.0
        )
    }
}

impl std::error::Error for InvalidSet {}

/// How many objects a set (`NAME/COUNT`) has.
///
/// # Errors
/// A text that is no set.
pub fn count(set: &str) -> Result<usize, InvalidSet> {
    let read = || {
        let (name, count) = set.rsplit_once('/')?;
        let is_name = names::is_dns1123_subdomain(name).is_ok();
        let count = count.parse().ok().filter(|count| (1..=LARGEST).contains(count))?;
        is_name.then_some(count)
    };
    read().ok_or_else(|| InvalidSet(set.to_owned()))
}

/// The set that an object carries, and of a template that of the object in it.
pub fn of(object: &Value) -> Option<&str> {
    let template = &object["template"];
    meta::annotation(if template.is_object() { template } else { object }, CHANGE_SET)
}

/// The sets that concern a Subscription and were complete.
pub fn taken(subscription: &Value) -> impl Iterator<Item = &str> {
    let text = meta::annotation(subscription, CHANGE_SETS_TAKEN).unwrap_or_default();
    text.split(',').filter(|set| !set.is_empty())
}

/// Whether a Subscription stays as it is, as far as it says so itself: the controllers have noted that a set lacks
/// objects, or have not noted yet that its own is complete.
pub fn is_frozen(subscription: &Value) -> bool {
    let own = of(subscription).filter(|set| count(set).is_ok());
    let waits = own.is_some_and(|set| taken(subscription).all(|it| it != set));
    waits || meta::annotation(subscription, FROZEN_BY).is_some_and(|sets| !sets.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reads_sets() {
        for (text, expected) in [
            ("release-42/3", Some(3)),
            ("a.b/1", Some(1)),
            ("a/1000", Some(1_000)),
            ("a/1001", None),
            ("a/0", None),
            ("a/-1", None),
            ("a", None),
            ("/3", None),
            ("a,b/3", None),
            ("A/3", None),
            ("", None),
        ] {
            assert_eq!(count(text).ok(), expected, "{text:?}");
        }
        let fault = count("A/3").unwrap_err().to_string();
        assert!(
            fault.contains(CHANGE_SET) && fault.contains("release-42/3"),
            "{fault}"
        );
    }

    #[test]
    fn a_subscription_says_whether_it_is_frozen() {
        for (set, taken, frozen_by, expected) in [
            ("", "", "", false),
            ("r/2", "", "", true),
            ("r/2", "q/1,r/2", "", false),
            ("r/2", "r/22", "", true),
            ("r/2", "r/2", "s/3", true),
            ("", "", "s/3", true),
            ("nonsense", "", "", false),
        ] {
            let annotations = [
                (CHANGE_SET, set),
                (CHANGE_SETS_TAKEN, taken),
                (FROZEN_BY, frozen_by),
            ];
            let mut object = json!({"metadata": {"annotations": {}}});
            for (key, text) in annotations.into_iter().filter(|(_, text)| !text.is_empty()) {
                object["metadata"]["annotations"][key] = json!(text);
            }
            assert_eq!(is_frozen(&object), expected, "{set} {taken} {frozen_by}");
        }
    }

    #[test]
    fn a_template_carries_what_is_in_it() {
        let object = json!({"metadata": {"annotations": {CHANGE_SET: "r/2"}}});
        assert_eq!(of(&object), Some("r/2"));
        assert_eq!(
            of(&json!({"metadata": {"annotations": {CHANGE_SET: "x/1"}}, "template": object})),
            Some("r/2")
        );
    }
}

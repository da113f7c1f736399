//! Which feeds may not run in two clusters at a time: StatefulSets, and what says so of itself.

use machinery::{meta, resource};
use serde_json::Value;

use crate::annotations::STATEFUL;
use crate::feed::Feed;

/// Whether an object says so of itself.
pub fn says_so(object: &Value) -> bool {
    meta::annotation(object, STATEFUL) == Some("true")
}

/// Whether a feed of a FeedInventory is such a one.
pub fn is(inventory: &Value, feed: &Feed) -> bool {
    let (group, _) = resource::split_api_version(&feed.api_version);
    let listed = meta::annotation(inventory, STATEFUL).unwrap_or_default();
    (group == "apps" && feed.kind == "StatefulSet") || listed.split(',').any(|key| key == feed.key())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn knows_what_may_not_run_twice() {
        let inventory = json!({"metadata": {"annotations": {STATEFUL: "apps/v1/Deployment/shop/db,x.io/v1/Shard/shop/a"}}});
        for (api_version, kind, name, expected) in [
            ("apps/v1", "StatefulSet", "any", true),
            ("x.io/v1", "StatefulSet", "any", false),
            ("apps/v1", "Deployment", "db", true),
            ("apps/v1", "Deployment", "web", false),
            ("x.io/v1", "Shard", "a", true),
        ] {
            let feed = json!({"apiVersion": api_version, "kind": kind, "namespace": "shop", "name": name});
            assert_eq!(
                is(&inventory, &Feed::from_value(&feed)),
                expected,
                "{kind} {name}"
            );
        }
        assert!(says_so(&json!({"metadata": {"annotations": {STATEFUL: "true"}}})));
        assert!(!says_so(&json!({"metadata": {"annotations": {STATEFUL: "yes"}}})));
    }
}

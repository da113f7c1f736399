//! Who this cluster is.

use api::{annotations, labels};
use clock::Env;
use machinery::meta;
use serde_json::Value;

/// The cluster's id: the UID of the agent's Lease, unless the Lease names an older one.
pub fn cluster_id(lease: &Value) -> &str {
    meta::annotation(lease, annotations::LEGACY_CLUSTER_ID)
        .filter(|id| !id.is_empty())
        .unwrap_or_else(|| meta::uid(lease))
}

/// The cluster's name: the one given, else that of an earlier request, else the prefix and five random characters.
pub fn cluster_name(given: Option<&str>, earlier_request: Option<&Value>, prefix: &str, env: &Env) -> String {
    let earlier = earlier_request
        .and_then(|request| meta::label(request, labels::CLUSTER_NAME))
        .filter(|name| !name.is_empty());
    match given.or(earlier) {
        Some(name) => name.to_owned(),
        None => format!("{prefix}-{}", env.suffix(api::names::SUFFIX_LENGTH)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_lease_is_the_identity() {
        let mut lease = json!({"metadata": {"uid": "u-1"}});
        assert_eq!(cluster_id(&lease), "u-1");
        lease["metadata"]["annotations"] = json!({"legacy-cluster-id": "old"});
        assert_eq!(cluster_id(&lease), "old");
    }

    #[test]
    fn k2_names() {
        let env = Env::system();
        let request = json!({"metadata": {"labels": {"clusters.clusternet.io/cluster-name": "before"}}});
        assert_eq!(cluster_name(Some("abc"), Some(&request), "foo", &env), "abc");
        assert_eq!(cluster_name(None, Some(&request), "foo", &env), "before");
        let made = cluster_name(None, None, "foo", &env);
        assert!(made.starts_with("foo-") && made.len() == 9, "{made}");
    }
}

//! Fuzz bodies: what callers put into URLs and extras, and what must hold after them.

use std::collections::BTreeMap;

use http::Uri;
use machinery::{ApiResource, meta};
use serde_json::{Value, json};

use crate::peers::PeerAddress;
use crate::proxy::{Credentials, Target};
use crate::shadow::template;

/// A URL below `sockets/{id}`: whatever is asked, an accepted place is a host and port without anything else in it.
pub fn fuzz_target(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let Ok(uri) = format!("/apis/proxies.clusternet.io/v1alpha1/sockets/id{text}").parse::<Uri>() else {
        return;
    };
    let cluster = json!({"status": {"apiserverURL": text}});
    for cluster in [None, Some(&cluster)] {
        if let Ok(found) = Target::parse(&uri).and_then(|target| target.resolve("id", cluster)) {
            let plain = |c: char| c.is_ascii_alphanumeric() || ".-_:[]".contains(c);
            assert!(found.address().chars().all(plain), "{found:?}");
            assert!(found.path_and_query.starts_with('/'), "{found:?}");
        }
    }
}

/// Extras, one `KEY=VALUE` a line: what is accepted never frames a message or names a host.
pub fn fuzz_extra(bytes: &[u8]) {
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in String::from_utf8_lossy(bytes).lines() {
        let (key, value) = line.split_once('=').unwrap_or((line, ""));
        extra.entry(key.to_owned()).or_default().push(value.to_owned());
    }
    if let Ok(credentials) = Credentials::from_extra(&extra) {
        for (name, _) in &credentials.headers {
            assert!(!matches!(
                name.as_str(),
                "host" | "content-length" | "transfer-encoding" | "connection"
            ));
        }
    }
}

/// Two lines of JSON, an object and the Manifest that it was before: its Manifest stands for it and shows it again.
pub fn fuzz_template(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut values = text.lines().map(serde_json::from_str::<Value>);
    let Some(Ok(object)) = values.next() else {
        return;
    };
    // The parent's dry run lets nothing else through.
    if !object["metadata"].is_object() {
        return;
    }
    let old = values.next().and_then(Result::ok);
    for resource in [
        ApiResource::namespaced("", "v1", "services", "Service"),
        ApiResource::namespaced("batch", "v1", "jobs", "Job"),
        ApiResource::cluster("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole"),
    ] {
        let manifest = template::to_manifest(&resource, "reserved", object.clone(), None);
        let shown = template::to_object(&manifest);
        assert_eq!(meta::name(&shown), meta::name(&object));
        if let Some(old) = old.as_ref().filter(|old| old["metadata"].is_object()) {
            template::to_object(&template::to_manifest(
                &resource,
                "reserved",
                object.clone(),
                Some(old),
            ));
        }
    }
}

/// What a Lease says of a hub: what is taken can be said again.
pub fn fuzz_peer(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(peer) = PeerAddress::parse(&text) {
        assert_eq!(PeerAddress::parse(&peer.holder()), Ok(peer));
    }
}

//! Fuzz bodies: what callers put into URLs and extras, and what must hold after them.

use std::collections::BTreeMap;

use http::Uri;
use serde_json::json;

use crate::peers::PeerAddress;
use crate::proxy::{Credentials, Target};

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

/// What a Lease says of a hub: what is taken can be said again.
pub fn fuzz_peer(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(peer) = PeerAddress::parse(&text) {
        assert_eq!(PeerAddress::parse(&peer.holder()), Ok(peer));
    }
}

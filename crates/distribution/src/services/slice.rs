//! What another cluster may know of an EndpointSlice, and how copies are brought to that.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use api::{kubernetes, labels};
use machinery::{address, meta};
use serde_json::{Map, Value, json};

use crate::action::Action;

/// How many addresses a message names.
const NAMED: usize = 5;
/// The longest of what somebody wrote that a message repeats.
const WORD_LIMIT: usize = 45;
/// Labels of copies that are taken off where they are not wanted.
const OPTIONAL: [&str; 3] = [
    labels::SUBSCRIPTION_NAMESPACE,
    labels::CLUSTER_ID,
    labels::CLUSTER_NAME,
];

/// Addresses and ports, without what means something in their own cluster only: nodes, pods, hints.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Content {
    /// `IPv4` or `IPv6`.
    pub(super) address_type: &'static str,
    /// Each with at least one address.
    pub(super) endpoints: Vec<Value>,
    /// With the server's defaults.
    pub(super) ports: Vec<Value>,
}

/// Reads a slice; `None` for one that has names instead of addresses. Addresses that mean another thing to each who
/// uses them, or nothing, go to `left_out`.
pub(super) fn read(slice: &Value, left_out: &mut BTreeSet<String>) -> Option<Content> {
    let address_type = match slice["addressType"].as_str() {
        Some("IPv4") => Some("IPv4"),
        Some("IPv6") => Some("IPv6"),
        Some(_) | None => None,
    };
    let mut endpoints = Vec::new();
    for endpoint in items(slice, "endpoints") {
        let said = items(endpoint, "addresses").filter_map(Value::as_str);
        let (kept, left): (Vec<&str>, Vec<&str>) =
            said.partition(|address| address_type.is_some_and(|kind| is_reachable(address, kind)));
        left_out.extend(
            left.iter()
                .map(|address| super::cut(address, WORD_LIMIT).to_owned()),
        );
        if kept.is_empty() {
            continue;
        }
        let mut copy = json!({"addresses": kept, "conditions": {}});
        for condition in ["ready", "serving", "terminating"] {
            if let Some(holds) = endpoint["conditions"][condition].as_bool() {
                copy["conditions"][condition] = json!(holds);
            }
        }
        for field in ["hostname", "zone"] {
            if let Some(text) = endpoint[field].as_str().filter(|text| !text.is_empty()) {
                copy[field] = json!(text);
            }
        }
        endpoints.push(copy);
    }
    Some(Content {
        address_type: address_type?,
        endpoints,
        ports: items(slice, "ports").map(port).collect(),
    })
}

/// A port with the server's defaults and nothing that this build does not know.
pub(super) fn port(port: &Value) -> Value {
    let text = |field: &str| port[field].as_str().filter(|text| !text.is_empty());
    let mut copy = json!({
        "name": text("name").unwrap_or_default(), "protocol": text("protocol").unwrap_or("TCP"),
    });
    if let Some(number) = port["port"].as_i64() {
        copy["port"] = json!(number);
    }
    if let Some(protocol) = text("appProtocol") {
        copy["appProtocol"] = json!(protocol);
    }
    copy
}

/// The entries of a list that may be null or absent.
pub(super) fn items<'a>(object: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    object[field].as_array().into_iter().flatten()
}

/// Whether an address is one of its family that can mean the same in two clusters.
fn is_reachable(address: &str, address_type: &str) -> bool {
    match (address.parse::<IpAddr>(), address_type) {
        (Ok(address @ IpAddr::V4(_)), "IPv4") | (Ok(address @ IpAddr::V6(_)), "IPv6") => {
            address::is_common(address)
        }
        (Ok(_) | Err(_), _) => false,
    }
}

/// What a message says of addresses that were left out; nothing if there are none.
pub(super) fn tell(left_out: &BTreeSet<String>) -> Option<String> {
    let named: Vec<&str> = left_out.iter().take(NAMED).map(String::as_str).collect();
    let more = match left_out.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!named.is_empty()).then(|| {
        format!(
            "{}{more}: only addresses count that are not loopback, link-local, multicast or unspecified",
            named.join(", ")
        )
    })
}

/// A copy as it should be.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) labels: Map<String, Value>,
    /// Owner references; left as they are if `None`.
    pub(super) owner: Option<Value>,
    pub(super) content: Content,
}

/// What brings the copies of a namespace to what is wanted there, by name: first what is new, last what goes.
pub(super) fn settle(
    namespace: &str,
    wanted: &BTreeMap<String, Wanted>,
    have: &[&Arc<Value>],
) -> Vec<Action> {
    let slices = &kubernetes::ENDPOINT_SLICES;
    let mut actions = Vec::new();
    for (name, copy) in wanted {
        match have.iter().find(|it| meta::name(it) == name) {
            Some(have) if have["addressType"] == copy.content.address_type => {
                let patch = difference(have, copy);
                actions.extend(patch.map(|patch| Action::patch(slices, have, patch)));
            }
            // Nobody may change the type.
            Some(have) => {
                actions.push(Action::delete(slices, have));
                actions.push(create(namespace, name, copy));
            }
            None => actions.push(create(namespace, name, copy)),
        }
    }
    let stale = have
        .iter()
        .filter(|it| !wanted.contains_key(meta::name(it)) && !meta::is_deleting(it));
    actions.extend(stale.map(|it| Action::delete(slices, it)));
    actions
}

fn create(namespace: &str, name: &str, copy: &Wanted) -> Action {
    let slices = kubernetes::ENDPOINT_SLICES;
    let Content {
        address_type,
        endpoints,
        ports,
    } = &copy.content;
    let mut object = json!({
        "apiVersion": slices.api_version(), "kind": slices.kind,
        "metadata": {"name": name, "namespace": namespace, "labels": copy.labels},
        "addressType": address_type, "endpoints": endpoints, "ports": ports,
    });
    if let Some(owner) = &copy.owner {
        object["metadata"]["ownerReferences"] = owner.clone();
    }
    Action::Create {
        resource: slices,
        object,
    }
}

/// The patch that makes a copy what it should be.
fn difference(have: &Value, copy: &Wanted) -> Option<Value> {
    let mut patch = json!({});
    let lists = [
        ("endpoints", &copy.content.endpoints),
        ("ports", &copy.content.ports),
    ];
    for (field, wanted) in lists {
        if !items(have, field).eq(wanted) {
            patch[field] = json!(wanted);
        }
    }
    described(have, &copy.labels, copy.owner.as_ref(), patch)
}

/// Adds to a patch what an object's labels and owners lack; `None` if it lacks nothing and the patch is empty.
pub(super) fn described(
    have: &Value,
    wanted: &Map<String, Value>,
    owner: Option<&Value>,
    mut patch: Value,
) -> Option<Value> {
    let mut changed = crate::labels::missing(have, wanted);
    for key in OPTIONAL {
        if !wanted.contains_key(key) && meta::label(have, key).is_some() {
            changed.insert(key.to_owned(), Value::Null);
        }
    }
    if !changed.is_empty() {
        patch["metadata"]["labels"] = json!(changed);
    }
    if let Some(owner) = owner
        && have["metadata"]["ownerReferences"] != *owner
    {
        patch["metadata"]["ownerReferences"] = owner.clone();
    }
    if patch == json!({}) {
        return None;
    }
    if !meta::resource_version(have).is_empty() {
        patch["metadata"]["resourceVersion"] = json!(meta::resource_version(have));
    }
    Some(patch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_addresses_that_mean_the_same_everywhere() {
        for (kind, address, expected) in [
            ("IPv4", "10.0.0.1", true),
            ("IPv4", "203.0.113.7", true),
            ("IPv4", "127.0.0.1", false),
            ("IPv4", "127.8.8.8", false),
            ("IPv4", "0.0.0.0", false),
            ("IPv4", "169.254.169.254", false),
            ("IPv4", "224.0.0.1", false),
            ("IPv4", "255.255.255.255", false),
            ("IPv4", "fd00::1", false),
            ("IPv4", "010.0.0.1", false),
            ("IPv4", "localhost", false),
            ("IPv4", "", false),
            ("IPv6", "fd00::1", true),
            ("IPv6", "2001:db8::7", true),
            ("IPv6", "::1", false),
            ("IPv6", "::", false),
            ("IPv6", "fe80::1", false),
            ("IPv6", "fe80::1%eth0", false),
            ("IPv6", "ff02::1", false),
            ("IPv6", "::ffff:127.0.0.1", false),
            ("IPv6", "::ffff:10.0.0.1", false),
            ("IPv6", "10.0.0.1", false),
            ("FQDN", "example.org", false),
        ] {
            let slice = json!({"addressType": kind, "endpoints": [{"addresses": [address]}]});
            let mut left_out = BTreeSet::new();
            let endpoints = read(&slice, &mut left_out).map_or(0, |content| content.endpoints.len());
            assert_eq!(endpoints == 1, expected, "{kind} {address}");
            assert_eq!(left_out.is_empty(), expected, "{kind} {address}: told");
        }
    }

    #[test]
    fn leaves_what_only_its_own_cluster_knows() {
        let slice = json!({"addressType": "IPv4", "ports": [{"port": 80}, {"name": "m", "protocol": "UDP", "port": 53, "appProtocol": "x", "y": 1}],
            "endpoints": [{
                "addresses": ["10.0.0.1", "127.0.0.1"], "conditions": {"ready": true, "terminating": false, "x": 1},
                "hostname": "web-0", "zone": "z", "nodeName": "n", "hints": {"forZones": []},
                "targetRef": {"kind": "Pod", "name": "web-0"},
            }, {"addresses": ["127.0.0.1"]}, {"addresses": null}]});
        let mut left_out = BTreeSet::new();
        let content = read(&slice, &mut left_out).unwrap();
        let expected = [
            json!({"addresses": ["10.0.0.1"], "conditions": {"ready": true, "terminating": false}, "hostname": "web-0", "zone": "z"}),
        ];
        assert_eq!(content.endpoints, expected);
        let expected = [
            json!({"name": "", "protocol": "TCP", "port": 80}),
            json!({"name": "m", "protocol": "UDP", "port": 53, "appProtocol": "x"}),
        ];
        assert_eq!(content.ports, expected);
        assert_eq!(left_out.into_iter().collect::<Vec<_>>(), ["127.0.0.1"]);
    }

    #[test]
    fn names_a_few_of_what_was_left_out() {
        let of = |count: u32| tell(&(0..count).map(|number| format!("127.0.0.{number}")).collect());
        assert_eq!(of(0), None);
        assert!(of(1).unwrap().starts_with("127.0.0.0: only"));
        assert!(of(7).unwrap().contains("127.0.0.4 and 2 more: "));
    }
}

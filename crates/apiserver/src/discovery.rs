//! What a client can find out about the server: groups, versions and resources, in the old and the aggregated form.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use smol_str::SmolStr;

use crate::group::GroupHandler;
use crate::registry::{Served, Snapshot, Subresource, version_rank};

/// Groups that clients see first, in this order; the others follow by name.
const FIRST: &[&str] = &[
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "flowcontrol.apiserver.k8s.io",
];

/// The content type of the aggregated form.
pub(crate) const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Everything that can be discovered at one moment.
pub(crate) struct Discovery {
    snapshot: Arc<Snapshot>,
    handlers: Vec<Arc<dyn GroupHandler>>,
}

impl Discovery {
    pub(crate) fn new(snapshot: Arc<Snapshot>, handlers: Vec<Arc<dyn GroupHandler>>) -> Self {
        Self { snapshot, handlers }
    }

    /// `/api`.
    pub(crate) fn core_versions(&self, address: &str) -> Value {
        json!({
            "kind": "APIVersions", "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
        })
    }

    /// Named groups with their versions, preferred first.
    fn groups(&self) -> Vec<(SmolStr, Vec<SmolStr>)> {
        let mut groups: BTreeMap<SmolStr, Vec<SmolStr>> = self.snapshot.groups();
        groups.remove("");
        for handler in &self.handlers {
            let versions = groups.entry(SmolStr::new(handler.group())).or_default();
            if !versions.iter().any(|version| version == handler.version()) {
                versions.push(SmolStr::new(handler.version()));
                versions.sort_by_key(|version| std::cmp::Reverse(version_rank(version)));
            }
        }
        let mut groups: Vec<_> = groups.into_iter().collect();
        groups.sort_by_key(|(name, _)| {
            let place = FIRST
                .iter()
                .position(|first| first == name)
                .unwrap_or(FIRST.len());
            (place, name.clone())
        });
        groups
    }

    /// `/apis`.
    pub(crate) fn group_list(&self) -> Value {
        let groups: Vec<Value> = self
            .groups()
            .iter()
            .map(|(name, versions)| group(name, versions))
            .collect();
        json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
    }

    /// `/apis/GROUP`.
    pub(crate) fn group(&self, name: &str) -> Option<Value> {
        let groups = self.groups();
        let (name, versions) = groups.iter().find(|(candidate, _)| candidate == name)?;
        let mut value = group(name, versions);
        value["kind"] = json!("APIGroup");
        value["apiVersion"] = json!("v1");
        Some(value)
    }

    /// `/api/v1` or `/apis/GROUP/VERSION`.
    pub(crate) fn resources(&self, group: &str, version: &str) -> Option<Value> {
        let mut resources = Vec::new();
        let mut api_version = None;
        for served in self.snapshot.of(group, version) {
            api_version = Some(served.api_version.to_string());
            resources.push(old_resource(served));
            resources.extend(
                served
                    .subresources
                    .iter()
                    .map(|subresource| old_subresource(served, subresource)),
            );
        }
        for handler in self
            .handlers
            .iter()
            .filter(|handler| handler.group() == group && handler.version() == version)
        {
            api_version = Some(format!("{group}/{version}"));
            let list = handler.discovery();
            resources.extend(list["resources"].as_array().into_iter().flatten().cloned());
        }
        Some(json!({
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version?, "resources": resources,
        }))
    }

    /// The aggregated form of `/api` (core) or `/apis`.
    pub(crate) fn aggregated(&self, core: bool) -> Value {
        let groups = if core {
            vec![(SmolStr::default(), vec![SmolStr::new_static("v1")])]
        } else {
            self.groups()
        };
        let items: Vec<Value> = groups
            .iter()
            .map(|(name, versions)| {
                let versions: Vec<Value> = versions
                    .iter()
                    .map(|version| self.version(name, version))
                    .collect();
                let metadata = if name.is_empty() {
                    json!({})
                } else {
                    json!({"name": name.as_str()})
                };
                json!({"metadata": metadata, "versions": versions})
            })
            .collect();
        json!({
            "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items,
        })
    }

    fn version(&self, group: &str, version: &str) -> Value {
        let mut resources: Vec<Value> = self
            .snapshot
            .of(group, version)
            .map(|served| new_resource(served))
            .collect();
        for handler in self
            .handlers
            .iter()
            .filter(|handler| handler.group() == group && handler.version() == version)
        {
            resources.extend(converted(group, version, &handler.discovery()));
        }
        json!({"version": version, "freshness": "Current", "resources": resources})
    }
}

/// An `ETag` for a document.
pub(crate) fn etag(document: &str) -> String {
    let hash = Sha256::digest(document.as_bytes());
    let mut text = String::with_capacity(hash.len() * 2 + 2);
    text.push('"');
    for byte in hash {
        text.push_str(&format!("{byte:02X}"));
    }
    text.push('"');
    text
}

fn group(name: &str, versions: &[SmolStr]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| json!({"groupVersion": format!("{name}/{version}"), "version": version.as_str()}))
        .collect();
    json!({"name": name, "versions": versions, "preferredVersion": versions.first()})
}

fn put_words(object: &mut Value, field: &str, words: &[SmolStr]) {
    if !words.is_empty() {
        object[field] = words.iter().map(SmolStr::as_str).collect::<Vec<_>>().into();
    }
}

fn old_resource(served: &Served) -> Value {
    let mut value = json!({
        "name": served.plural.as_str(), "singularName": served.singular.as_str(), "namespaced": served.namespaced,
        "kind": served.kind.as_str(), "verbs": served.verbs,
    });
    put_words(&mut value, "shortNames", &served.short_names);
    put_words(&mut value, "categories", &served.categories);
    if served.allows("list") {
        let hash = etag(served.storage.as_str());
        value["storageVersionHash"] = json!(hash[1..17].to_owned());
    }
    value
}

fn old_subresource(served: &Served, subresource: &Subresource) -> Value {
    let mut value = json!({
        "name": format!("{}/{}", served.plural, subresource.name), "singularName": "",
        "namespaced": served.namespaced, "kind": subresource.kind.as_str(), "verbs": subresource.verbs,
    });
    if let Some((group, version)) = &subresource.group_version {
        value["group"] = json!(group.as_str());
        value["version"] = json!(version.as_str());
    }
    value
}

fn kind(group: &str, version: &str, kind: &str) -> Value {
    json!({"group": group, "version": version, "kind": kind})
}

fn new_resource(served: &Served) -> Value {
    let mut value = json!({
        "resource": served.plural.as_str(), "responseKind": kind(&served.group, &served.version, &served.kind),
        "scope": if served.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": served.singular.as_str(), "verbs": served.verbs,
    });
    put_words(&mut value, "shortNames", &served.short_names);
    put_words(&mut value, "categories", &served.categories);
    let subresources: Vec<Value> = served
        .subresources
        .iter()
        .map(|subresource| {
            let (group, version) = match &subresource.group_version {
                Some((group, version)) => (group.as_str(), version.as_str()),
                None => (served.group.as_str(), served.version.as_str()),
            };
            json!({
                "subresource": subresource.name.as_str(), "responseKind": kind(group, version, &subresource.kind),
                "verbs": subresource.verbs,
            })
        })
        .collect();
    if !subresources.is_empty() {
        value["subresources"] = json!(subresources);
    }
    value
}

/// An `APIResourceList` in the aggregated form.
fn converted(group: &str, version: &str, list: &Value) -> Vec<Value> {
    let mut resources: Vec<(String, Map<String, Value>)> = Vec::new();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let own = |value: &Value, field: &str, default: &str| match value[field].as_str() {
        Some(word) if !word.is_empty() => word.to_owned(),
        _ => default.to_owned(),
    };
    let scope = |resource: &Value| match resource["namespaced"].as_bool() {
        Some(true) => "Namespaced",
        Some(false) | None => "Cluster",
    };
    for resource in list["resources"].as_array().into_iter().flatten() {
        let name = text(&resource["name"]);
        let response = kind(
            &own(resource, "group", group),
            &own(resource, "version", version),
            &text(&resource["kind"]),
        );
        if let Some((parent, subresource)) = name.split_once('/') {
            let entry =
                json!({"subresource": subresource, "responseKind": response, "verbs": resource["verbs"]});
            // As with Kubernetes, one that has only subresources is there, and can do nothing itself.
            if !resources.iter().any(|(name, _)| name == parent) {
                let lone = json!({
                    "resource": parent, "responseKind": kind("", "", ""), "scope": scope(resource),
                    "singularResource": "", "verbs": [],
                });
                let map = lone.as_object().cloned().unwrap_or_default();
                resources.push((parent.to_owned(), map));
            }
            if let Some((_, map)) = resources.iter_mut().find(|(name, _)| name == parent) {
                match map.get_mut("subresources").and_then(Value::as_array_mut) {
                    Some(list) => list.push(entry),
                    None => {
                        map.insert("subresources".to_owned(), json!([entry]));
                    }
                }
            }
            continue;
        }
        let mut map = Map::new();
        map.insert("resource".to_owned(), json!(name));
        map.insert("responseKind".to_owned(), response);
        map.insert("scope".to_owned(), json!(scope(resource)));
        map.insert(
            "singularResource".to_owned(),
            json!(text(&resource["singularName"])),
        );
        for field in ["verbs", "shortNames", "categories"] {
            if !resource[field].is_null() {
                map.insert(field.to_owned(), resource[field].clone());
            }
        }
        resources.push((name, map));
    }
    resources.into_iter().map(|(_, map)| Value::Object(map)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registry;

    /// D3.
    #[test]
    fn d3_a_group_may_have_only_subresources() {
        let resource =
            |name: &str| json!({"name": name, "kind": "Machine", "namespaced": true, "verbs": ["update"]});
        let list = json!({"resources": [resource("machines/start"), resource("machines/stop")]});
        let converted = converted("subresources.example.io", "v1", &list);
        assert_eq!(converted.len(), 1);
        assert_eq!(
            (
                &converted[0]["resource"],
                &converted[0]["verbs"],
                &converted[0]["scope"]
            ),
            (&json!("machines"), &json!([]), &json!("Namespaced"))
        );
        assert_eq!(converted[0]["subresources"][1]["subresource"], "stop");
    }

    #[test]
    fn both_forms_say_the_same() {
        let discovery = Discovery::new(Registry::new().snapshot(), Vec::new());
        let old = discovery.resources("apps", "v1").unwrap();
        let names: Vec<&str> = old["resources"]
            .as_array()
            .unwrap()
            .iter()
            .map(|resource| resource["name"].as_str().unwrap())
            .collect();
        assert!(names.contains(&"deployments") && names.contains(&"deployments/scale"));
        let new = discovery.aggregated(false);
        let apps = new["items"]
            .as_array()
            .unwrap()
            .iter()
            .find(|item| item["metadata"]["name"] == "apps")
            .unwrap();
        let converted = converted("apps", "v1", &old);
        assert_eq!(
            converted.len(),
            apps["versions"][0]["resources"].as_array().unwrap().len()
        );
        assert!(discovery.group("none").is_none());
        assert_eq!(
            discovery.group("batch").unwrap()["preferredVersion"]["version"],
            "v1"
        );
        assert_eq!(
            discovery.aggregated(true)["items"][0]["versions"][0]["version"],
            "v1"
        );
    }
}

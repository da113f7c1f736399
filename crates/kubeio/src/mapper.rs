//! From kinds to resources, by discovery.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use http::{Request, header};
use machinery::resource::{join_api_version, split_api_version};
use machinery::{ApiError, ApiResource, Gvk};
use serde_json::Value;

use crate::client::Client;
use crate::error::Error;

const AGGREGATED: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

/// Resources that a server may have; more are not believed.
const MAX_RESOURCES: usize = 20_000;

/// One resource as a server describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Discovered {
    /// How to address it.
    pub resource: ApiResource,
    /// What it can do.
    pub verbs: Vec<String>,
    /// Short names.
    pub short_names: Vec<String>,
    /// Categories.
    pub categories: Vec<String>,
    /// Its subresources' names (`status`, `scale`…).
    pub subresources: Vec<String>,
}

/// Everything that a server serves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Discovery {
    /// The resources, preferred groups and versions first.
    pub resources: Vec<Discovered>,
    /// The group versions that could not be read: their server is away.
    pub failed: Vec<String>,
}

impl Client {
    /// Asks the server what it serves, in one round trip where it can answer so. A group whose server is away is
    /// named in [`Discovery::failed`]; the others are there.
    ///
    /// # Errors
    /// See [`Error`]; only if the roots of discovery cannot be read.
    pub async fn discover(&self) -> Result<Discovery, Error> {
        let mut discovery = Discovery::default();
        for root in ["/api", "/apis"] {
            let answer = self.read_discovery(root).await?;
            if answer["kind"] == "APIGroupDiscoveryList" {
                let part = from_aggregated(&answer);
                discovery.resources.extend(part.resources);
                discovery.failed.extend(part.failed);
                continue;
            }
            for version in from_group_list(&answer) {
                if discovery.resources.len() > MAX_RESOURCES {
                    return Err(Error::Answer {
                        request: format!("GET {root}"),
                        problem: format!("more than {MAX_RESOURCES} resources"),
                    });
                }
                let path = if root == "/api" {
                    format!("/api/{version}")
                } else {
                    format!("/apis/{version}")
                };
                match self.read_discovery(&path).await {
                    Ok(list) => discovery.resources.extend(from_resource_list(&list)),
                    Err(error) => {
                        tracing::debug!(group_version = %version, %error, "discovery is partial");
                        discovery.failed.push(version);
                    }
                }
            }
        }
        Ok(discovery)
    }

    async fn read_discovery(&self, path: &str) -> Result<Value, Error> {
        let request = Request::get(path)
            .header(header::ACCEPT, AGGREGATED)
            .body(Vec::new())
            .map_err(|error| Error::Answer {
                request: path.to_owned(),
                problem: error.to_string(),
            })?;
        let response = self.request(request).await?;
        if !response.status().is_success() {
            return Err(Error::Api(ApiError::from_body(
                response.status().as_u16(),
                response.body(),
            )));
        }
        serde_json::from_slice(response.body()).map_err(|error| Error::Answer {
            request: format!("GET {path}"),
            problem: error.to_string(),
        })
    }
}

fn array<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value[field].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

fn texts(value: &Value, field: &str) -> Vec<String> {
    array(value, field)
        .iter()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

/// From an `APIGroupDiscoveryList`.
pub(crate) fn from_aggregated(list: &Value) -> Discovery {
    let mut discovery = Discovery::default();
    for item in array(list, "items") {
        let group = text(&item["metadata"], "name");
        for version in array(item, "versions") {
            let name = text(version, "version");
            if text(version, "freshness") == "Stale" {
                discovery.failed.push(join_api_version(group, name));
            }
            for resource in array(version, "resources") {
                let kind = &resource["responseKind"];
                discovery.resources.push(Discovered {
                    resource: ApiResource {
                        group: group.to_owned().into(),
                        version: name.to_owned().into(),
                        plural: text(resource, "resource").to_owned().into(),
                        kind: text(kind, "kind").to_owned().into(),
                        namespaced: text(resource, "scope") == "Namespaced",
                    },
                    verbs: texts(resource, "verbs"),
                    short_names: texts(resource, "shortNames"),
                    categories: texts(resource, "categories"),
                    subresources: array(resource, "subresources")
                        .iter()
                        .map(|subresource| text(subresource, "subresource").to_owned())
                        .collect(),
                });
            }
        }
    }
    discovery
}

/// The group versions of an `APIVersions` or `APIGroupList`, the preferred version of a group first.
pub(crate) fn from_group_list(list: &Value) -> Vec<String> {
    let mut versions = texts(list, "versions");
    for group in array(list, "groups") {
        let preferred = text(&group["preferredVersion"], "groupVersion");
        let rest = array(group, "versions")
            .iter()
            .map(|version| text(version, "groupVersion"));
        let mut of_group: Vec<&str> = std::iter::once(preferred)
            .chain(rest.filter(|version| *version != preferred))
            .collect();
        of_group.retain(|version| !version.is_empty());
        versions.extend(of_group.into_iter().map(str::to_owned));
    }
    versions
}

/// From an `APIResourceList`.
pub(crate) fn from_resource_list(list: &Value) -> Vec<Discovered> {
    let (group, version) = split_api_version(text(list, "groupVersion"));
    let mut subresources: BTreeMap<&str, (Vec<String>, bool)> = BTreeMap::new();
    let mut found = Vec::new();
    for resource in array(list, "resources") {
        if let Some((parent, subresource)) = text(resource, "name").split_once('/') {
            let (of_parent, _) = subresources
                .entry(parent)
                .or_insert_with(|| (Vec::new(), resource["namespaced"].as_bool().unwrap_or(false)));
            of_parent.push(subresource.to_owned());
            continue;
        }
        found.push(Discovered {
            resource: ApiResource {
                group: group.to_owned().into(),
                version: version.to_owned().into(),
                plural: text(resource, "name").to_owned().into(),
                kind: text(resource, "kind").to_owned().into(),
                namespaced: resource["namespaced"].as_bool().unwrap_or(false),
            },
            verbs: texts(resource, "verbs"),
            short_names: texts(resource, "shortNames"),
            categories: texts(resource, "categories"),
            subresources: Vec::new(),
        });
    }
    for resource in &mut found {
        if let Some((of_it, _)) = subresources.remove(&*resource.resource.plural) {
            resource.subresources = of_it;
        }
    }
    // Who is not there itself, only what is below: as the aggregated form has it, a resource that can do nothing.
    found.extend(
        subresources
            .into_iter()
            .map(|(parent, (lone, namespaced))| Discovered {
                resource: ApiResource {
                    group: group.to_owned().into(),
                    version: version.to_owned().into(),
                    plural: parent.to_owned().into(),
                    kind: "".into(),
                    namespaced,
                },
                verbs: Vec::new(),
                short_names: Vec::new(),
                categories: Vec::new(),
                subresources: lone,
            }),
    );
    found
}

/// Answers which resource a kind is, asking the server again when it does not know. Clones share what is known.
#[derive(Debug, Clone)]
pub struct Mapper {
    client: Client,
    known: Arc<Mutex<BTreeMap<Gvk, ApiResource>>>,
}

impl Mapper {
    /// A mapper that knows nothing yet.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            known: Arc::default(),
        }
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<Gvk, ApiResource>> {
        self.known.lock().expect("no holder panics")
    }

    /// The resource of a kind; `None` if the server serves no such kind.
    ///
    /// # Errors
    /// See [`Error`]; also when the kind's group could not be read.
    pub async fn resource(&self, kind: &Gvk) -> Result<Option<ApiResource>, Error> {
        if let Some(resource) = self.known().get(kind).cloned() {
            return Ok(Some(resource));
        }
        let discovery = self.client.discover().await?;
        let found = {
            let mut known = self.known();
            // A group whose server is away keeps what was known of it.
            known.retain(|kind, _| discovery.failed.contains(&kind.api_version()));
            for Discovered { resource, .. } in discovery.resources {
                let kind = Gvk {
                    group: resource.group.to_string(),
                    version: resource.version.to_string(),
                    kind: resource.kind.to_string(),
                };
                known.entry(kind).or_insert(resource);
            }
            known.get(kind).cloned()
        };
        if found.is_none() && discovery.failed.contains(&kind.api_version()) {
            return Err(Error::Answer {
                request: "discovery".to_owned(),
                problem: format!("the server of {} is away", kind.api_version()),
            });
        }
        Ok(found)
    }

    /// Forgets a kind: its definition is gone or has changed.
    pub fn forget(&self, kind: &Gvk) {
        self.known().remove(kind);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{Fake, json_answer, status_answer};
    use serde_json::json;

    fn gvk(api_version: &str, kind: &str) -> Gvk {
        Gvk::new(api_version, kind)
    }

    #[tokio::test(start_paused = true)]
    async fn reads_the_aggregated_form_and_asks_again_only_for_the_unknown() {
        let fake = Fake::default();
        let widgets = json!({"kind": "APIGroupDiscoveryList", "items": [{"metadata": {"name": "x.io"}, "versions": [
            {"version": "v1", "freshness": "Current", "resources": [{"resource": "widgets", "scope": "Cluster",
              "responseKind": {"group": "x.io", "version": "v1", "kind": "Widget"}, "verbs": ["get"],
              "subresources": [{"subresource": "status"}]}]},
            {"version": "v2", "freshness": "Stale"}]}]});
        let core = json!({"kind": "APIGroupDiscoveryList", "items": []});
        for answer in [&core, &widgets, &core, &widgets, &core, &widgets] {
            fake.answer(json_answer(answer));
        }
        let mapper = Mapper::new(fake.client());
        for _ in 0..3 {
            let found = mapper.resource(&gvk("x.io/v1", "Widget")).await.unwrap().unwrap();
            assert_eq!((found.plural.as_ref(), found.namespaced), ("widgets", false));
        }
        assert_eq!(mapper.resource(&gvk("x.io/v1", "Gadget")).await.unwrap(), None);
        assert!(
            mapper.resource(&gvk("x.io/v2", "Widget")).await.is_err(),
            "its server is away"
        );
        assert_eq!(fake.requests().len(), 6);
    }

    /// D3.
    #[test]
    fn d3_what_has_only_subresources_is_a_resource_that_can_do_nothing() {
        let resource =
            |name: &str| json!({"name": name, "kind": "Machine", "namespaced": true, "verbs": ["update"]});
        let list = json!({"kind": "APIResourceList", "groupVersion": "subresources.example.io/v1", "resources":
            [resource("machines/start"), resource("machines/stop")]});
        let found = from_resource_list(&list);
        assert_eq!(found.len(), 1);
        let parent = ApiResource::namespaced("subresources.example.io", "v1", "machines", "");
        assert_eq!((&found[0].resource, &found[0].verbs), (&parent, &Vec::new()));
        assert_eq!(found[0].subresources, ["start", "stop"]);
    }

    #[tokio::test(start_paused = true)]
    async fn reads_the_old_form_and_survives_a_group_that_fails() {
        let fake = Fake::default();
        fake.answer(json_answer(&json!({"kind": "APIVersions", "versions": ["v1"]})));
        fake.answer(json_answer(
            &json!({"kind": "APIResourceList", "groupVersion": "v1", "resources": [
            {"name": "pods", "kind": "Pod", "namespaced": true, "verbs": ["get"], "shortNames": ["po"]},
            {"name": "pods/log", "kind": "Pod", "namespaced": true, "verbs": ["get"]}]}),
        ));
        fake.answer(json_answer(&json!({"kind": "APIGroupList", "groups": [
            {"name": "a", "versions": [{"groupVersion": "a/v1"}, {"groupVersion": "a/v2"}], "preferredVersion": {"groupVersion": "a/v2"}}]})));
        fake.answer(status_answer(503, "ServiceUnavailable"));
        fake.answer(json_answer(
            &json!({"kind": "APIResourceList", "groupVersion": "a/v1", "resources": [
            {"name": "things", "kind": "Thing", "namespaced": false, "verbs": []}]}),
        ));
        let discovery = fake.client().discover().await.unwrap();
        assert_eq!(discovery.failed, ["a/v2"]);
        assert_eq!(discovery.resources.len(), 2);
        assert_eq!(discovery.resources[0].subresources, ["log"]);
        assert_eq!(
            discovery.resources[1].resource,
            ApiResource::cluster("a", "v1", "things", "Thing")
        );
    }
}

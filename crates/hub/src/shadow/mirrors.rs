//! Which kinds of the parent the shadow API shows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use api::kubernetes::CUSTOM_RESOURCE_DEFINITIONS;
use apiserver::kinds::Kind;
use kubeio::{Cache, CacheOptions, Client, Discovered};
use machinery::resource::ALL_VERBS;
use machinery::{ApiResource, meta};
use runtime::CancellationToken;
use serde_json::{Value, json};

/// Between two looks at the parent when nothing happens.
const REFRESH: Duration = Duration::from_secs(60);

/// After the first look failed.
const RETRY: Duration = Duration::from_secs(2);

/// After a definition changed: the parent serves it a moment later.
const SETTLE: Duration = Duration::from_millis(500);

/// One kind that is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mirror {
    pub(crate) resource: ApiResource,
    pub(crate) has_scale: bool,
}

type Table = BTreeMap<String, Mirror>;

/// Custom kinds whose definitions are kept; they are read again when they are asked for.
const MAX_KINDS: usize = 256;

/// Custom kinds by their definition's name and their version, with the definition's resource version.
type Kinds = BTreeMap<(String, String), (String, Kind)>;

/// The kinds that are shown, by plural.
pub(crate) struct Mirrors {
    client: Client,
    table: RwLock<Arc<Table>>,
    /// Which definitions there are, in which version.
    definitions: Cache,
    kinds: Mutex<Kinds>,
    /// What was logged as left out.
    told: Mutex<BTreeSet<String>>,
}

impl Mirrors {
    /// Looks at the parent now and then, and when a custom resource definition changes.
    pub(crate) fn start(client: Client, shutdown: CancellationToken) -> Arc<Self> {
        let options = CacheOptions {
            project: |object: Value| {
                json!({"metadata": {
                    "name": object["metadata"]["name"], "resourceVersion": object["metadata"]["resourceVersion"],
                }})
            },
            ..CacheOptions::default()
        };
        let mirrors = Arc::new(Self {
            client: client.clone(),
            table: RwLock::default(),
            definitions: Cache::start(client, CUSTOM_RESOURCE_DEFINITIONS, options),
            kinds: Mutex::default(),
            told: Mutex::default(),
        });
        let running = Arc::clone(&mirrors);
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => {}
                () = running.follow() => {}
            }
        });
        mirrors
    }

    async fn follow(&self) {
        let mut changes = self.definitions.subscribe();
        loop {
            let wait = if self.refresh().await { REFRESH } else { RETRY };
            if tokio::time::timeout(wait, changes.next()).await.is_ok() {
                tokio::time::sleep(SETTLE).await;
                while changes.try_next().is_some() {}
            }
        }
    }

    /// Reads the parent's discovery; says whether it could.
    pub(crate) async fn refresh(&self) -> bool {
        let discovery = match self.client.discover().await {
            Ok(discovery) => discovery,
            Err(error) => {
                tracing::warn!(error = %runtime::Chain(&error), "the parent's kinds cannot be read");
                return false;
            }
        };
        let Selected { mut table, lone } = select(&discovery.resources);
        if !discovery.failed.is_empty() {
            // A group whose server is away keeps what was known of it.
            for (plural, mirror) in self.table().iter() {
                if discovery.failed.contains(&mirror.resource.api_version()) {
                    table.entry(plural.clone()).or_insert_with(|| mirror.clone());
                }
            }
        }
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        for group_version in lone {
            if told.insert(group_version.clone()) {
                tracing::info!(
                    group_version,
                    "resources without their own reads are not shadowed"
                );
            }
        }
        drop(told);
        *self.table.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(table);
        true
    }

    pub(crate) fn table(&self) -> Arc<Table> {
        Arc::clone(&self.table.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// What more is known of a kind: columns, schema, scale. A custom kind's definition is read when it is first needed
    /// and when it has changed.
    pub(crate) async fn kind(&self, mirror: &Mirror) -> Kind {
        let resource = &mirror.resource;
        if let Some(kind) = Kind::built_in(resource) {
            return kind;
        }
        let name = format!("{}.{}", resource.plural, resource.group);
        let newest = self.definitions.get(None, &name);
        let key = (name.clone(), resource.version.to_string());
        if let Some((version, kind)) = self.kinds().get(&key)
            && newest
                .as_ref()
                .is_some_and(|newest| meta::resource_version(newest) == version)
        {
            return kind.clone();
        }
        let read = self
            .client
            .get_opt(&CUSTOM_RESOURCE_DEFINITIONS, None, &name)
            .await;
        let definition = read.unwrap_or_else(|error| {
            tracing::debug!(name, error = %runtime::Chain(&error), "a definition cannot be read");
            None
        });
        let found = definition
            .as_ref()
            .and_then(|definition| Some((definition, Kind::custom(definition, &resource.version)?)));
        let Some((definition, kind)) = found else {
            return Kind::plain(resource);
        };
        let mut kinds = self.kinds();
        if kinds.len() >= MAX_KINDS {
            kinds.clear();
        }
        kinds.insert(key, (meta::resource_version(definition).to_owned(), kind.clone()));
        kind
    }

    /// What all that is known of the kinds changes with: which there are, and the versions of their definitions.
    pub(crate) fn state(&self) -> String {
        let mut state = discovery(&self.table()).to_string();
        for definition in self.definitions.list() {
            state.push(' ');
            state.push_str(meta::resource_version(&definition));
        }
        state
    }

    fn kinds(&self) -> MutexGuard<'_, Kinds> {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A kind by its plural; asks the parent once more if it is not known.
    pub(crate) async fn find(&self, plural: &str) -> Option<Mirror> {
        if let Some(mirror) = self.table().get(plural) {
            return Some(mirror.clone());
        }
        self.refresh().await;
        self.table().get(plural).cloned()
    }
}

#[derive(Debug, Default)]
struct Selected {
    table: Table,
    /// Group versions with something that cannot be shown.
    lone: BTreeSet<String>,
}

/// Picks, for each plural, the first that can be shown: discovery has preferred groups and versions first.
fn select(resources: &[Discovered]) -> Selected {
    let mut selected = Selected::default();
    for found in resources {
        let resource = &found.resource;
        if is_skipped(&resource.group) {
            continue;
        }
        let has = |verb: &str| found.verbs.iter().any(|candidate| candidate == verb);
        if resource.plural.contains('/') || resource.kind.is_empty() || !has("get") || !has("create") {
            if !has("create") || resource.kind.is_empty() {
                selected.lone.insert(resource.api_version());
            }
            continue;
        }
        selected
            .table
            .entry(resource.plural.to_string())
            .or_insert_with(|| Mirror {
                resource: resource.clone(),
                has_scale: found
                    .subresources
                    .iter()
                    .any(|subresource| subresource == "scale"),
            });
    }
    selected
}

/// Groups that are not shown: ours, measurements, and the parent's own API registrations.
fn is_skipped(group: &str) -> bool {
    group.ends_with(".clusternet.io")
        || matches!(
            group,
            "shadow" | "metrics.k8s.io" | "custom.metrics.k8s.io" | "apiregistration.k8s.io"
        )
}

/// The `APIResourceList`. Short names are left out: kubectl warns of every one that two groups share.
pub(crate) fn discovery(table: &Table) -> Value {
    let mut resources = Vec::new();
    for mirror in table.values() {
        let resource = &mirror.resource;
        resources.push(json!({
            "name": resource.plural, "singularName": resource.kind.to_lowercase(), "namespaced": resource.namespaced,
            "group": resource.group, "version": resource.version, "kind": resource.kind, "verbs": ALL_VERBS,
            "categories": ["clusternet.shadow"],
        }));
        if mirror.has_scale {
            resources.push(json!({
                "name": format!("{}/scale", resource.plural), "singularName": "", "namespaced": resource.namespaced,
                "group": "autoscaling", "version": "v1", "kind": "Scale", "verbs": ["get", "patch", "update"],
            }));
        }
    }
    json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "shadow/v1alpha1", "resources": resources,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(
        group: &'static str,
        version: &'static str,
        plural: &'static str,
        kind: &'static str,
    ) -> Discovered {
        let verbs = if kind.ends_with("Review") {
            vec!["create"]
        } else {
            vec!["create", "get", "list"]
        };
        Discovered {
            resource: ApiResource::namespaced(group, version, plural, kind),
            verbs: verbs.into_iter().map(str::to_owned).collect(),
            short_names: Vec::new(),
            categories: Vec::new(),
            subresources: vec!["scale".to_owned()],
        }
    }

    /// U17.
    #[test]
    fn shows_the_preferred_of_equal_plurals_and_skips_groups() {
        let selected = select(&[
            found("networking.k8s.io", "v1", "ingresses", "Ingress"),
            found("extensions", "v1beta1", "ingresses", "Ingress"),
            found("apps", "v1", "deployments", "Deployment"),
            found("apps", "v1beta1", "deployments", "Deployment"),
            found("apps", "v1beta1", "elders", "Elder"),
            found("apps.clusternet.io", "v1alpha1", "subscriptions", "Subscription"),
            found("metrics.k8s.io", "v1beta1", "pods", "PodMetrics"),
            found("shadow", "v1alpha1", "pods", "Pod"),
            found(
                "authorization.k8s.io",
                "v1",
                "subjectaccessreviews",
                "SubjectAccessReview",
            ),
        ]);
        let shown: Vec<String> = selected
            .table
            .values()
            .map(|mirror| format!("{} {}", mirror.resource.plural, mirror.resource.api_version()))
            .collect();
        assert_eq!(
            shown,
            [
                "deployments apps/v1",
                "elders apps/v1beta1",
                "ingresses networking.k8s.io/v1"
            ]
        );
        let list = discovery(&selected.table);
        assert_eq!(list["resources"][1]["name"], "deployments/scale");
        assert!(list["resources"][0].get("shortNames").is_none());
    }

    #[tokio::test]
    async fn each_version_of_a_custom_kind_has_its_own_columns() {
        let versions = ["v1", "v2"].map(|version| {
            let column = json!({"name": format!("Of {version}"), "type": "string", "jsonPath": ".x"});
            json!({"name": version, "served": true, "storage": version == "v1", "additionalPrinterColumns": [column]})
        });
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.example.io", "resourceVersion": "1"},
            "spec": {
                "group": "example.io", "scope": "Namespaced",
                "names": {"plural": "widgets", "kind": "Widget"},
                "versions": versions,
            },
            "status": {"conditions": [{"type": "Established", "status": "True"}]},
        });
        type Request = http::Request<http_body_util::Full<bytes::Bytes>>;
        let client = Client::from_service(tower::service_fn(move |request: Request| {
            let path = request.uri().path().to_owned();
            let answer = if path.ends_with("/widgets.example.io") {
                definition.clone()
            } else if path.ends_with("/customresourcedefinitions") {
                json!({"metadata": {"resourceVersion": "1"}, "items": [definition.clone()]})
            } else {
                json!({})
            };
            let body = http_body_util::Full::new(bytes::Bytes::from(answer.to_string()));
            std::future::ready(Ok::<_, std::convert::Infallible>(http::Response::new(body)))
        }));
        let mirrors = Mirrors::start(client, CancellationToken::new());
        mirrors.definitions.ready().await;
        for version in ["v1", "v2", "v1"] {
            let mirror = Mirror {
                resource: ApiResource::namespaced("example.io", version, "widgets", "Widget"),
                has_scale: false,
            };
            let kind = format!("{:?}", mirrors.kind(&mirror).await);
            assert!(kind.contains(&format!("Of {version}")), "{version}: {kind}");
        }
    }

    #[test]
    fn d3_a_group_with_only_subresources_does_no_harm() {
        let mut lone = found("subresources.example.io", "v1", "machines", "");
        lone.verbs.clear();
        let selected = select(&[lone, found("example.io", "v1", "machines", "Machine")]);
        assert_eq!(selected.table["machines"].resource.api_version(), "example.io/v1");
        assert_eq!(
            selected.lone.into_iter().collect::<Vec<_>>(),
            ["subresources.example.io/v1"]
        );
    }
}

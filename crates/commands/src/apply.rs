//! `apply`, `create` and `diff`.

use std::io::Write;

use kubeio::{Client, Discovery, Patch};
use machinery::patch::{json_merge_diff, merge_patch, strategic_diff, strategic_merge};
use machinery::{ApiResource, builtin, meta};
use serde_json::{Value, json};

use crate::error::Failures;
use crate::resolve::by_kind;
use crate::scope::Scope;
use crate::{Error, Hub, Source, read};

/// Where kubectl keeps what was applied last; ours must continue what kubectl began, and the other way round.
pub(crate) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// How large all annotations of an object may be together, in bytes (apimachinery, `TotalAnnotationSizeLimitB`).
const ANNOTATIONS_LIMIT: usize = 256 << 10;

/// An object as a file asks for it.
pub(crate) struct Wanted {
    pub(crate) resource: ApiResource,
    pub(crate) namespace: Option<String>,
    pub(crate) object: Value,
}

impl Wanted {
    fn new(discovery: &Discovery, scope: &Scope, mut object: Value) -> Result<Self, Error> {
        let resource = by_kind(discovery, &meta::gvk(&object))?;
        if meta::name(&object).is_empty() {
            return Err(Error::Usage(format!(
                "an object of kind {} has no metadata.name",
                meta::kind(&object)
            )));
        }
        let namespace = scope
            .of(&resource, meta::namespace(&object))?
            .map(ToOwned::to_owned);
        if let Some(namespace) = &namespace {
            object["metadata"]["namespace"] = json!(namespace);
        }
        Ok(Self {
            resource,
            namespace,
            object,
        })
    }

    pub(crate) fn title(&self) -> String {
        let group = meta::gvk(&self.object).group;
        let dot = if group.is_empty() { "" } else { "." };
        format!(
            "{}{dot}{group}/{}",
            meta::kind(&self.object).to_lowercase(),
            meta::name(&self.object)
        )
    }

    pub(crate) async fn live(&self, hub: &Hub) -> Result<Option<Value>, Error> {
        let title = self.title();
        hub.client
            .get_opt(
                &self.resource,
                self.namespace.as_deref(),
                meta::name(&self.object),
            )
            .await
            .map_err(Error::hub(format!("{title} cannot be read")))
    }

    /// The object as it is to be stored: with what was applied in its annotation.
    pub(crate) fn annotated(&self) -> Value {
        let mut applied = self.object.clone();
        if let Some(annotations) = applied
            .pointer_mut("/metadata/annotations")
            .and_then(Value::as_object_mut)
        {
            annotations.remove(LAST_APPLIED);
        }
        let text = format!("{applied}\n");
        meta::set_annotation(&mut applied, LAST_APPLIED, &text);
        applied
    }

    /// Whether what is applied fits into its annotation.
    fn fits(&self) -> Result<(), Error> {
        let annotated = self.annotated();
        let bytes = meta::annotation(&annotated, LAST_APPLIED).map_or(0, str::len);
        if bytes <= ANNOTATIONS_LIMIT {
            return Ok(());
        }
        Err(Error::Usage(format!(
            "{} cannot be applied: its {bytes} bytes do not fit into an annotation, which takes {ANNOTATIONS_LIMIT}; \
             with --server-side the hub keeps track instead",
            self.title()
        )))
    }

    /// What has to change in the live object, and how it is to be sent. Lists of built-in kinds are merged by their
    /// keys, so that what the server filled in is not taken for something to remove.
    pub(crate) fn patch(&self, live: &Value) -> Result<(Patch, Value), Error> {
        let last = meta::annotation(live, LAST_APPLIED);
        let last: Value = last
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_else(|| json!({}));
        let wanted = self.annotated();
        match builtin::schema(&meta::gvk(&self.object)) {
            None => Ok((Patch::Merge, json_merge_diff(&last, &wanted, live))),
            Some(schema) => strategic_diff(&last, &wanted, live, schema)
                .map(|patch| (Patch::Strategic, patch))
                .map_err(|error| Error::Missing(format!("{} cannot be compared: {error}", self.title()))),
        }
    }

    /// The live object with what has to change.
    fn patched(&self, live: &Value) -> Result<Value, Error> {
        let (kind, patch) = self.patch(live)?;
        match builtin::schema(&meta::gvk(&self.object)) {
            Some(schema) if kind == Patch::Strategic => strategic_merge(live, &patch, schema)
                .map_err(|error| Error::Missing(format!("{} cannot be compared: {error}", self.title()))),
            _ => {
                let mut after = live.clone();
                merge_patch(&mut after, &patch);
                Ok(after)
            }
        }
    }
}

/// What the files ask for; an object that makes no sense is an error of its own.
pub(crate) async fn wanted(hub: &Hub, sources: &[Source]) -> Result<Vec<Result<Wanted, Error>>, Error> {
    let objects = read(sources)?;
    if objects.is_empty() {
        return Err(Error::Usage("the files hold no objects".into()));
    }
    let discovery = hub.discover().await?;
    let wanted = |object| Wanted::new(&discovery, &hub.scope, object);
    Ok(objects.into_iter().map(wanted).collect())
}

/// Who keeps track of what was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tracking {
    /// An annotation of the object, as with `kubectl apply`: what is applied may have 256 KiB.
    Annotation,
    /// The hub (server-side apply).
    FieldManager {
        /// The name under which the fields are owned.
        manager: String,
        /// Take fields over from other managers.
        force: bool,
    },
}

/// Makes the hub's templates as the files say; says of each whether it was created, configured or unchanged
/// (`serverside-applied` where the hub keeps track, as kubectl says it).
///
/// # Errors
/// [`Error`] of the objects that fail; the others are applied.
pub async fn apply(
    hub: &Hub,
    sources: &[Source],
    tracking: &Tracking,
    out: &mut (dyn Write + Send),
) -> Result<(), Error> {
    let mut failures = Failures::default();
    for wanted in wanted(hub, sources).await? {
        let outcome = async {
            let wanted = wanted?;
            let verdict = match tracking {
                Tracking::Annotation => {
                    wanted.fits()?;
                    apply_one(hub, &wanted).await?
                }
                Tracking::FieldManager { manager, force } => {
                    let patch = Patch::Apply {
                        manager: manager.clone(),
                        force: *force,
                    };
                    let (namespace, name) = (wanted.namespace.as_deref(), meta::name(&wanted.object));
                    hub.client
                        .patch(&wanted.resource, namespace, name, None, patch, &wanted.object)
                        .await
                        .map_err(Error::hub(format!("{} cannot be applied", wanted.title())))?;
                    "serverside-applied"
                }
            };
            Ok(writeln!(out, "{} {verdict}", wanted.title())?)
        };
        failures.take(outcome.await)?;
    }
    failures.end()
}

async fn apply_one(hub: &Hub, wanted: &Wanted) -> Result<&'static str, Error> {
    let failed = || Error::hub(format!("{} cannot be applied", wanted.title()));
    let namespace = wanted.namespace.as_deref();
    let Some(live) = wanted.live(hub).await? else {
        hub.client
            .create(&wanted.resource, namespace, &wanted.annotated())
            .await
            .map_err(failed())?;
        return Ok("created");
    };
    let (kind, patch) = wanted.patch(&live)?;
    if patch.as_object().is_none_or(serde_json::Map::is_empty) {
        return Ok("unchanged");
    }
    let sent = send(&hub.client, wanted, &live, kind, &patch).await?;
    let patched = sent.map_err(failed())?;
    let same = meta::resource_version(&patched) == meta::resource_version(&live);
    Ok(if same { "unchanged" } else { "configured" })
}

/// Sends a patch, in another way to a hub that does not know this one.
async fn send(
    client: &Client,
    wanted: &Wanted,
    live: &Value,
    kind: Patch,
    patch: &Value,
) -> Result<Result<Value, kubeio::Error>, Error> {
    let (namespace, name) = (wanted.namespace.as_deref(), meta::name(&wanted.object));
    let send = |kind, patch| client.patch(&wanted.resource, namespace, name, None, kind, patch);
    let strategic = kind == Patch::Strategic;
    match send(kind, patch).await {
        Err(error) if strategic && is_refused(&error) => {
            let after = wanted.patched(live)?;
            Ok(send(Patch::Merge, &json_merge_diff(live, &after, live)).await)
        }
        sent => Ok(sent),
    }
}

/// Whether a hub may not know this kind of patch: upstream's has no types for templates, and refuses strategic ones (400).
fn is_refused(error: &kubeio::Error) -> bool {
    error.api().is_some_and(|error| matches!(error.code, 400 | 415))
}

/// Makes templates that must not be there yet.
///
/// # Errors
/// [`Error`] of the objects that fail; the others are created.
pub async fn create(hub: &Hub, sources: &[Source], out: &mut (dyn Write + Send)) -> Result<(), Error> {
    let mut failures = Failures::default();
    for wanted in wanted(hub, sources).await? {
        let outcome = async {
            let wanted = wanted?;
            let title = wanted.title();
            hub.client
                .create(&wanted.resource, wanted.namespace.as_deref(), &wanted.object)
                .await
                .map_err(Error::hub(format!("{title} cannot be created")))?;
            Ok(writeln!(out, "{title} created")?)
        };
        failures.take(outcome.await)?;
    }
    failures.end()
}

/// Shows what [`apply`] would change, as YAML before and after, line by line.
///
/// # Errors
/// [`Error::Differs`] if there is anything; [`Error`] if it cannot be told.
pub async fn diff(hub: &Hub, sources: &[Source], out: &mut (dyn Write + Send)) -> Result<(), Error> {
    let mut differs = false;
    for wanted in wanted(hub, sources).await? {
        let wanted = wanted?;
        let live = wanted.live(hub).await?;
        let after = match &live {
            None => wanted.object.clone(),
            Some(live) => wanted.patched(live)?,
        };
        let show = |object: &Value| {
            let mut shown = object.clone();
            if let Some(annotations) = shown
                .pointer_mut("/metadata/annotations")
                .and_then(Value::as_object_mut)
            {
                annotations.remove(LAST_APPLIED);
                if annotations.is_empty() {
                    shown["metadata"]
                        .as_object_mut()
                        .expect("it held annotations")
                        .remove("annotations");
                }
            }
            codec::yaml::to_string(&shown)
        };
        let before = live.as_ref().map(show).unwrap_or_default();
        let after = show(&after);
        if before != after {
            differs = true;
            writeln!(out, "{}", wanted.title())?;
            for line in changed_lines(&before, &after) {
                writeln!(out, "{line}")?;
            }
        }
    }
    if differs { Err(Error::Differs) } else { Ok(()) }
}

/// Lines that only one of two texts has, in order, marked `-` and `+` (longest common subsequence).
fn changed_lines(before: &str, after: &str) -> Vec<String> {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let mut longest = vec![vec![0_usize; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            longest[i][j] = if old[i] == new[j] {
                longest[i + 1][j + 1] + 1
            } else {
                longest[i + 1][j].max(longest[i][j + 1])
            };
        }
    }
    let (mut i, mut j, mut lines) = (0, 0, Vec::new());
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            (i, j) = (i + 1, j + 1);
        } else if j == new.len() || (i < old.len() && longest[i + 1][j] >= longest[i][j + 1]) {
            lines.push(format!("- {}", old[i]));
            i += 1;
        } else {
            lines.push(format!("+ {}", new[j]));
            j += 1;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use http_body_util::BodyExt as _;

    use super::*;

    #[test]
    fn shows_changed_lines_only() {
        assert_eq!(changed_lines("a\nb\nc\n", "a\nx\nc\nd\n"), ["- b", "+ x", "+ d"]);
        assert!(changed_lines("a\n", "a\n").is_empty());
    }

    #[test]
    fn what_the_server_filled_in_is_no_difference() {
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
            "spec": {"template": {"spec": {"containers": [{"name": "web", "image": "nginx"}]}}},
        });
        let wanted = Wanted {
            resource: ApiResource::namespaced("shadow", "v1alpha1", "deployments", "Deployment"),
            namespace: Some("default".into()),
            object: deployment,
        };
        let mut live = wanted.annotated();
        live["spec"]["replicas"] = json!(1);
        live["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"] = json!("IfNotPresent");
        assert_eq!(wanted.patch(&live).expect("it can be compared").1, json!({}));
        assert_eq!(wanted.patched(&live).expect("it can be compared"), live);
    }

    #[test]
    fn what_does_not_fit_into_an_annotation_is_told_before_it_is_sent() {
        let wanted = |bytes: usize| Wanted {
            resource: ApiResource::namespaced("shadow", "v1alpha1", "configmaps", "ConfigMap"),
            namespace: Some("default".into()),
            object: json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "rules"},
                "data": {"all": "x".repeat(bytes)}}),
        };
        assert!(wanted(ANNOTATIONS_LIMIT - 200).fits().is_ok());
        let error = wanted(ANNOTATIONS_LIMIT)
            .fits()
            .expect_err("too large")
            .to_string();
        assert!(
            error.contains("configmap/rules") && error.contains("--server-side"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn a_hub_that_takes_no_strategic_patches_gets_another() {
        let deployment = |image: &str| {
            json!({
                "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
                "spec": {"template": {"spec": {"containers": [{"name": "web", "image": image}]}}},
            })
        };
        let wanted = |image: &str| Wanted {
            resource: ApiResource::namespaced("shadow", "v1alpha1", "deployments", "Deployment"),
            namespace: Some("default".into()),
            object: deployment(image),
        };
        let mut live = wanted("old").annotated();
        live["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"] = json!("Always");
        let wanted = wanted("new");
        for (refusal, tried) in [(400, 2), (415, 2), (403, 1), (409, 1)] {
            let seen = Arc::new(Mutex::new(Vec::new()));
            let (requests, before) = (Arc::clone(&seen), live.clone());
            let client = Client::from_service(tower::service_fn(
                move |request: http::Request<http_body_util::Full<bytes::Bytes>>| {
                    let (requests, before) = (Arc::clone(&requests), before.clone());
                    async move {
                        let kind = request.headers()["content-type"].to_str().unwrap().to_owned();
                        let body = request.into_body().collect().await.unwrap().to_bytes();
                        let strategic = kind.starts_with("application/strategic-merge-patch");
                        requests.lock().unwrap().push(kind);
                        let mut after = before;
                        merge_patch(&mut after, &serde_json::from_slice(&body).unwrap());
                        let answer = http::Response::builder().header("content-type", "application/json");
                        Ok::<_, std::convert::Infallible>(if strategic {
                            let status = json!({"kind": "Status", "apiVersion": "v1", "code": refusal,
                                "message": "strategic merge patch format is not supported"});
                            answer.status(refusal).body(status.to_string()).unwrap()
                        } else {
                            answer.body(after.to_string()).unwrap()
                        })
                    }
                },
            ));
            let (kind, patch) = wanted.patch(&live).unwrap();
            let sent = send(&client, &wanted, &live, kind, &patch).await.unwrap();
            assert_eq!(seen.lock().unwrap().len(), tried, "{refusal}");
            assert_eq!(sent.is_ok(), tried == 2, "{refusal}");
            if let Ok(stored) = sent {
                let container = &stored["spec"]["template"]["spec"]["containers"][0];
                let expected = json!({"name": "web", "image": "new", "imagePullPolicy": "Always"});
                assert_eq!(*container, expected, "what the hub filled in stays");
            }
        }
    }

    #[test]
    fn takes_back_what_was_applied_before_and_keeps_what_others_set() {
        let resource = ApiResource::namespaced("shadow", "v1alpha1", "configmaps", "ConfigMap");
        let object = |data: Value| {
            json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "x", "namespace": "default"}, "data": data})
        };
        let first = Wanted {
            resource: resource.clone(),
            namespace: Some("default".into()),
            object: object(json!({"a": "1", "b": "2"})),
        };
        let mut live = first.annotated();
        live["data"]["other"] = json!("kept");
        let second = Wanted {
            resource,
            namespace: Some("default".into()),
            object: object(json!({"a": "1"})),
        };
        live = second.patched(&live).expect("it can be compared");
        assert_eq!(live["data"], json!({"a": "1", "other": "kept"}));
        assert_eq!(second.patch(&live).expect("it can be compared").1, json!({}));
    }
}

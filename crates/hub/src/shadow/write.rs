//! Creating and changing templates.

use api::annotations::SKIP_VALIDATING;
use apiserver::{Body, identity};
use http::header::WARNING;
use http::{Response, StatusCode};
use machinery::managed::{self, FieldSet, Writer};
use machinery::patch::{self, PatchError};
use machinery::schema::Schema;
use machinery::{ApiError, ApiResource, Cause, Reason, builtin, meta};
use serde_json::{Value, json};

use super::body::Patch;
use super::parent::{Answer, Parameters};
use super::template::{to_manifest, to_object};
use super::{Call, Shadow, conflict};

/// Other names tried for a dry run when one is taken on the parent.
const NAMES_TRIED: usize = 5;

/// Rounds of read, change, write when others change the same object.
const ROUNDS: usize = 5;

/// Whether an object is tried on the parent before it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trial {
    DryRun,
    Skip,
}

/// How it becomes known who set which fields, where that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tracked {
    /// What differs from before is the writer's.
    ByDifference,
    /// The new object says so already, as apply makes it.
    Already,
}

impl Shadow {
    pub(super) async fn create(
        &self,
        call: &Call<'_>,
        mut object: Value,
    ) -> Result<Response<Body>, ApiError> {
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
        let stored = self.store(call, object).await?;
        self.written(call, StatusCode::CREATED, stored)
    }

    /// Stores an object that is not there yet.
    async fn store(&self, call: &Call<'_>, mut object: Value) -> Result<Answer, ApiError> {
        self.check(call, &mut object, call.name())?;
        if meta::name(&object).is_empty() {
            let prefix = meta::generate_name(&object);
            if prefix.is_empty() {
                let text = "Required value: name or generateName is required";
                let ApiResource { group, kind, .. } = call.resource();
                let cause = cause("FieldValueRequired", "metadata.name", text);
                return Err(ApiError::invalid(group, kind, "", vec![cause]));
            }
            let name = format!("{prefix}{}", self.env.suffix(api::names::SUFFIX_LENGTH));
            meta::set_text(&mut object, "name", &name);
        }
        if !meta::resource_version(&object).is_empty() {
            return Err(ApiError::bad_request(
                "resourceVersion should not be set on objects to be created",
            ));
        }
        let name = meta::name(&object).to_owned();
        let tried = self.validate(call, object, Trial::DryRun).await?;
        let mut manifest = to_manifest(call.resource(), self.parent.reserved(), tried.value, None);
        if meta::uid(&manifest["template"]).is_empty() {
            manifest["template"]["metadata"]["uid"] = json!(self.env.uuid());
        }
        let stored = self.parent.create_manifest(&manifest, &options(call)).await;
        Ok(Answer {
            value: stored.map_err(|error| call.translate(error, &name))?,
            warnings: tried.warnings,
        })
    }

    pub(super) async fn update(&self, call: &Call<'_>, object: Value) -> Result<Response<Body>, ApiError> {
        let stored = self
            .change(call, Trial::DryRun, Tracked::ByDifference, |_| Ok(object.clone()))
            .await?;
        self.written(call, StatusCode::OK, stored)
    }

    pub(super) async fn patch(&self, call: &Call<'_>, patch: Patch) -> Result<Response<Body>, ApiError> {
        if let Patch::Apply(config) = &patch {
            return self.apply(call, config).await;
        }
        let stored = self
            .change(call, Trial::DryRun, Tracked::ByDifference, |object| {
                patched(call.resource(), &patch, object)
            })
            .await?;
        self.written(call, StatusCode::OK, stored)
    }

    /// Server-side apply.
    async fn apply(&self, call: &Call<'_>, config: &Value) -> Result<Response<Body>, ApiError> {
        let ApiResource { group, kind, .. } = call.resource();
        identity::check_applied(config, |found| {
            found.group == **group && found.kind == **kind && !found.version.is_empty()
        })?;
        match self.manifest(call).await {
            Ok(_) => {}
            Err(error) if error.reason == Reason::NotFound => {
                let stored = self.store(call, applied_anew(call, config)?).await;
                match stored {
                    // Somebody was quicker: it is applied to theirs.
                    Err(error) if error.reason == Reason::AlreadyExists => {}
                    stored => return self.written(call, StatusCode::CREATED, stored?),
                }
            }
            Err(error) => return Err(error),
        }
        let stored = self
            .change(call, Trial::DryRun, Tracked::Already, |object| {
                applied(call, object, config)
            })
            .await?;
        self.written(call, StatusCode::OK, stored)
    }

    fn written(
        &self,
        call: &Call<'_>,
        status: StatusCode,
        stored: Answer,
    ) -> Result<Response<Body>, ApiError> {
        let mut response = call.object(status, to_object(&stored.value))?;
        for warning in stored.warnings {
            response.headers_mut().append(WARNING, warning);
        }
        Ok(response)
    }

    /// Reads, changes and writes. A change that names a resource version is lost to any other change; one that names
    /// none is made again on the newer object.
    pub(super) async fn change(
        &self,
        call: &Call<'_>,
        trial: Trial,
        tracked: Tracked,
        change: impl Fn(&Value) -> Result<Value, ApiError> + Sync,
    ) -> Result<Answer, ApiError> {
        for _ in 0..ROUNDS {
            let manifest = self.manifest(call).await?;
            let current = to_object(&manifest);
            let mut object = change(&current)?;
            self.check(call, &mut object, call.name())?;
            let version = meta::resource_version(&object);
            if !version.is_empty() && version != meta::resource_version(&current) {
                return Err(conflict(call.resource(), call.name()));
            }
            let uid = meta::uid(&object);
            if !uid.is_empty() && uid != meta::uid(&current) {
                let why = format!(
                    "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                    meta::uid(&current)
                );
                let ApiResource { group, plural, .. } = call.resource();
                return Err(ApiError::conflict(group, plural, call.name(), &why));
            }
            let tried = self.validate(call, object, trial).await?;
            let next = match tracked {
                Tracked::ByDifference => tracked_by_difference(call, &current, tried.value),
                Tracked::Already => tried.value,
            };
            let next = to_manifest(call.resource(), self.parent.reserved(), next, Some(&manifest));
            match self.parent.replace_manifest(&next, &options(call)).await {
                Ok(value) => {
                    return Ok(Answer {
                        value,
                        warnings: tried.warnings,
                    });
                }
                // Read again: a version that the caller named is then found to be old.
                Err(error) if error.reason == Reason::Conflict => {}
                Err(error) => return Err(call.translate(error, call.name())),
            }
        }
        Err(conflict(call.resource(), call.name()))
    }

    /// Makes sure that an object is of the kind, namespace and name that the URL names.
    fn check(&self, call: &Call<'_>, object: &mut Value, name: &str) -> Result<(), ApiError> {
        let resource = call.resource();
        if !object.is_object() || !(object["metadata"].is_object() || object["metadata"].is_null()) {
            return Err(ApiError::bad_request("the body is no Kubernetes object"));
        }
        let gvk = meta::gvk(object);
        if gvk.kind != *resource.kind || gvk.group != *resource.group || gvk.version.is_empty() {
            return Err(ApiError::bad_request(format!(
                "the object provided is a {:?} of {:?}, this resource has {:?} of {:?}",
                gvk.kind,
                gvk.api_version(),
                resource.kind,
                resource.api_version()
            )));
        }
        let asked = call.namespace();
        let found = meta::namespace(object);
        if resource.namespaced {
            if asked.is_empty() {
                return Err(ApiError::bad_request(
                    "an empty namespace may not be set during creation",
                ));
            }
            if !found.is_empty() && found != asked {
                return Err(ApiError::bad_request(format!(
                    "the namespace of the provided object does not match the namespace sent on the request ({found:?} \
                     is not {asked:?})"
                )));
            }
            meta::set_text(object, "namespace", asked);
        } else if !found.is_empty() {
            return Err(ApiError::bad_request(
                "namespace may not be set on an object without namespace",
            ));
        }
        if !name.is_empty() {
            identity::check_name(meta::name(object), name)?;
        }
        meta::set_label(object, api::labels::CREATED_BY, api::labels::CREATED_BY_HUB);
        Ok(())
    }

    /// Tries an object on the parent, in the reserved namespace, as the caller; gives it back with its defaults.
    async fn validate(&self, call: &Call<'_>, object: Value, trial: Trial) -> Result<Answer, ApiError> {
        let skip = meta::annotation(&object, SKIP_VALIDATING) == Some("true");
        if skip || trial == Trial::Skip {
            return Ok(Answer {
                value: object,
                warnings: Vec::new(),
            });
        }
        let mut resource = call.resource().clone();
        resource.version = meta::gvk(&object).version.into();
        let path = resource.path(Some(self.parent.reserved()), None);
        let parameters = Parameters::default().add("dryRun", "All").add(
            "fieldValidation",
            call.query.get("fieldValidation").unwrap_or_default(),
        );
        let name = meta::name(&object).to_owned();
        let mut trial = object.clone();
        super::trim::trim(&mut trial);
        if let Some(metadata) = trial["metadata"].as_object_mut() {
            // Owners and managers are the template's matter, not the trial's.
            metadata.remove("uid");
            metadata.remove("ownerReferences");
            metadata.remove("managedFields");
        }
        if resource.namespaced {
            meta::set_text(&mut trial, "namespace", self.parent.reserved());
        }
        for _ in 0..NAMES_TRIED {
            match self.parent.dry_run(&path, &parameters, &trial, call.user).await {
                Ok(answer) => {
                    let value = restore(answer.value, &object, &resource);
                    return Ok(Answer {
                        value,
                        warnings: answer.warnings,
                    });
                }
                Err(error) if error.reason == Reason::AlreadyExists => {
                    if has_fixed_name(&resource) {
                        return Ok(Answer {
                            value: object,
                            warnings: Vec::new(),
                        });
                    }
                    // Names of 63 characters leave no room for a suffix.
                    let start: String = name.chars().take(60).collect();
                    let other = format!("{}{}", start.trim_end_matches(['-', '.']), self.env.suffix(3));
                    meta::set_text(&mut trial, "name", &other);
                }
                Err(error) => return Err(own_words(error, &resource, &name)),
            }
        }
        Err(ApiError::already_exists(&resource.group, &resource.plural, &name))
    }
}

/// Kinds whose names follow from their content: they cannot be tried under another.
fn has_fixed_name(resource: &ApiResource) -> bool {
    resource.group == "apiextensions.k8s.io" && resource.plural == "customresourcedefinitions"
}

/// Gives a tried object the identity that it has as a template.
fn restore(mut tried: Value, object: &Value, resource: &ApiResource) -> Value {
    meta::set_text(&mut tried, "name", meta::name(object));
    if resource.namespaced {
        meta::set_text(&mut tried, "namespace", meta::namespace(object));
    }
    if resource.group.is_empty() && resource.kind == "Namespace" {
        meta::set_label(&mut tried, "kubernetes.io/metadata.name", meta::name(object));
    }
    for field in [
        "resourceVersion",
        "uid",
        "ownerReferences",
        "generateName",
        "managedFields",
    ] {
        let value = object["metadata"].get(field).cloned();
        if let Some(metadata) = tried["metadata"].as_object_mut() {
            match value {
                Some(value) => {
                    metadata.insert(field.to_owned(), value);
                }
                // The trial's UID is kept: nobody else has it.
                None if field == "uid" => {}
                None => {
                    metadata.remove(field);
                }
            }
        }
    }
    tried
}

/// An error about the trial, as one about the template.
fn own_words(mut error: ApiError, resource: &ApiResource, name: &str) -> ApiError {
    if error.reason != Reason::Forbidden {
        return error;
    }
    error.message = format!(
        "{} (a template is tried on the parent with your rights before it is stored; annotation \
         {SKIP_VALIDATING}=\"true\" on it skips that)",
        error.message
    );
    error.about(&resource.group, &resource.plural, name)
}

/// The caller's options that apply to the Manifest too.
fn options(call: &Call<'_>) -> Parameters {
    let dry_run = if call.options.dry_run { "All" } else { "" };
    Parameters::default()
        .add("dryRun", dry_run)
        .add("fieldManager", &call.options.manager)
}

fn cause(reason: &str, field: &str, message: &str) -> Cause {
    Cause {
        reason: reason.to_owned(),
        message: message.to_owned(),
        field: field.to_owned(),
    }
}

/// The type of an object, unless it has fields that are not known here: the parent may be newer, and its dry run tells
/// of those that it does not know either.
fn schema<'a>(call: &'a Call<'_>, object: &Value) -> Option<&'a Schema> {
    let schema = if meta::api_version(object) == call.resource().api_version() {
        call.kind.schema()
    } else {
        builtin::schema(&meta::gvk(object))
    };
    schema.filter(|schema| schema.unknown_fields(object).is_empty())
}

/// A template has no status, so nobody manages it.
fn never_managed() -> FieldSet {
    FieldSet::of(&["status"])
}

/// The object with who manages its fields brought up to date, if that is kept at all.
fn tracked_by_difference(call: &Call<'_>, current: &Value, object: Value) -> Value {
    let api_version = meta::api_version(&object).to_owned();
    let writer = Writer {
        schema: schema(call, &object),
        manager: call.manager(),
        api_version: &api_version,
        subresource: &call.info.subresource,
        reset: &never_managed(),
        now: call.now,
    };
    managed::update(current, object, &writer)
}

/// A template with a configuration applied.
fn applied(call: &Call<'_>, current: &Value, config: &Value) -> Result<Value, ApiError> {
    let mut config = config.clone();
    if meta::namespace(&config).is_empty() && !call.namespace().is_empty() {
        meta::set_text(&mut config, "namespace", call.namespace());
    }
    let writer = Writer {
        schema: schema(call, &config),
        manager: call.manager(),
        api_version: meta::api_version(&config),
        subresource: "",
        reset: &never_managed(),
        now: call.now,
    };
    let ApiResource { group, plural, .. } = call.resource();
    managed::apply(current, &config, call.options.force, &writer)
        .map_err(|error| ApiError::from(error).about(group, plural, call.name()))
}

/// The template that a configuration makes where there is none.
fn applied_anew(call: &Call<'_>, config: &Value) -> Result<Value, ApiError> {
    let uid = meta::uid(config);
    if !uid.is_empty() {
        let why = format!(
            "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        );
        let ApiResource { group, plural, .. } = call.resource();
        return Err(ApiError::conflict(group, plural, call.name(), &why));
    }
    let nothing = json!({
        "apiVersion": meta::api_version(config), "kind": meta::kind(config), "metadata": {},
    });
    applied(call, &nothing, config)
}

/// Applies a patch to an object.
fn patched(resource: &ApiResource, patch: &Patch, object: &Value) -> Result<Value, ApiError> {
    let Patch::Strategic(patch) = patch else {
        return patched_plain(patch, object);
    };
    let Some(schema) = builtin::schema(&meta::gvk(object)) else {
        let text = format!(
            "the body of the request was in an unknown format: {} has no strategic merge patch; accepted media types \
             include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
            resource.kind
        );
        return Err(ApiError::new(Reason::UnsupportedMediaType, text));
    };
    patch::strategic_merge(object, patch, schema).map_err(patch_error)
}

/// Applies a patch that needs no type; all but a JSON patch are taken as merge patches.
pub(super) fn patched_plain(patch: &Patch, object: &Value) -> Result<Value, ApiError> {
    match patch {
        Patch::Json(operations) => patch::json_patch(object, operations).map_err(patch_error),
        Patch::Merge(patch) | Patch::Strategic(patch) | Patch::Apply(patch) => {
            let mut changed = object.clone();
            patch::merge_patch(&mut changed, patch);
            Ok(changed)
        }
    }
}

fn patch_error(error: PatchError) -> ApiError {
    let reason = match error {
        PatchError::Malformed(_) => Reason::BadRequest,
        PatchError::TooManyOperations { .. } => Reason::RequestEntityTooLarge,
        PatchError::DoesNotApply(_) | PatchError::TestFailed { .. } => Reason::Invalid,
    };
    ApiError::new(reason, error.to_string())
}

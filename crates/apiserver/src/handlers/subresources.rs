//! Subresources other than the object itself.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use machinery::{ApiError, Reason, meta};
use serde_json::{Value, json};
use source::{Key, Resource};

use super::update::Tracked;
use super::{Call, Part, eviction, metadata, patch, present, scale, update};
use crate::body::Body;
use crate::error;
use crate::group::Subject;
use crate::object;
use crate::request_info::RequestInfo;
use crate::respond;
use crate::reviews;
use crate::server::ApiServer;
use crate::tokens;
use crate::user::UserInfo;

/// Answers a request on a subresource.
pub(super) async fn answer(call: &mut Call<'_>, body: Bytes) -> Result<Response<Body>, ApiError> {
    let name = call.info.subresource.clone();
    let verb = call.info.verb.clone();
    let part = match name.as_str() {
        "scale" => return scale::answer(call, body).await,
        "status" => Part::Status,
        "finalize" => Part::Finalize,
        "approval" => Part::Approval,
        "ephemeralcontainers" => Part::EphemeralContainers,
        "resize" => Part::Resize,
        "token" => return token(call, body).await,
        "binding" => return bind(call, body).await,
        "eviction" => return eviction::evict(call, body).await,
        _ => return Err(error::no_such_path()),
    };
    match verb.as_str() {
        "get" => {
            let object = call.existing().await?;
            present::stored(call, StatusCode::OK, &object)
        }
        "update" => update::replace(call, part, body).await,
        "patch" => patch::patch(call, part, body).await,
        _ => Err(error::no_such_verb()),
    }
}

/// Answers a review, or the old way to bind a pod.
pub(super) async fn review(call: &mut Call<'_>, body: Bytes) -> Result<Response<Body>, ApiError> {
    let mut object = call.decode(&body)?;
    metadata::admit(&call.served, call.namespace(), &mut object, None)?;
    update::check_schema(call, &mut object)?;
    let answer = reviews::create(
        &call.server.gate,
        call.server.env().now(),
        call.user,
        &call.served.group,
        &call.served.plural,
        call.namespace(),
        &object,
    )
    .await?
    .ok_or_else(error::no_such_verb)?;
    present::tree(call, StatusCode::CREATED, answer)
}

/// Issues a service account's token.
async fn token(call: &mut Call<'_>, body: Bytes) -> Result<Response<Body>, ApiError> {
    let mut request = call.decode(&body)?;
    metadata::admit_other(call, &mut request, "authentication.k8s.io/v1", "TokenRequest")?;
    let stored = call.existing().await?;
    let account = object::parse(&call.served, &stored.json)?;
    let Some(authenticator) = call.server.gate.authenticator() else {
        return Err(error::no_such_path());
    };
    let named = &request["metadata"]["name"];
    if !matches!(named.as_str(), None | Some("")) && *named != call.info.name.as_str() {
        let detail = "must match the service account name if specified";
        return Err(ApiError::invalid(
            "authentication.k8s.io",
            "TokenRequest",
            "",
            vec![machinery::Cause::invalid("metadata.name", named, detail)],
        ));
    }
    let bound = bound_object(call, &request["spec"]["boundObjectRef"]).await?;
    let answer = tokens::issue(
        authenticator.tokens(),
        call.server.env(),
        &account,
        &request,
        bound.as_ref(),
    )?;
    present::tree(call, StatusCode::CREATED, answer)
}

/// The object that a token is bound to.
async fn bound_object(call: &Call<'_>, reference: &Value) -> Result<Option<Value>, ApiError> {
    let plural = match reference["kind"].as_str() {
        Some("Pod") => "pods",
        Some("Secret") => "secrets",
        Some("Node") => "nodes",
        _ => return Ok(None),
    };
    let namespace = if plural == "nodes" { "" } else { call.namespace() };
    let name = reference["name"].as_str().unwrap_or_default();
    let key = Key::new(&Resource::new("", plural), namespace, name);
    let found = call.server.source().get(&key).await.map_err(error::of_source)?;
    found
        .map(|object| {
            serde_json::from_slice(&object.json)
                .map_err(|error| ApiError::internal(format!("a stored object cannot be read: {error}")))
        })
        .transpose()
}

/// Puts a pod on a node.
async fn bind(call: &mut Call<'_>, body: Bytes) -> Result<Response<Body>, ApiError> {
    let mut binding = call.decode(&body)?;
    metadata::admit_other(call, &mut binding, "v1", "Binding")?;
    if meta::name(&binding) != call.info.name {
        return Err(ApiError::bad_request(
            "name in URL does not match name in Binding object",
        ));
    }
    let node = binding["target"]["name"].as_str().unwrap_or_default().to_owned();
    if node.is_empty() {
        return Err(ApiError::invalid(
            "",
            "Binding",
            &call.info.name,
            vec![machinery::Cause {
                reason: "FieldValueRequired".to_owned(),
                message: "Required value".to_owned(),
                field: "target.name".to_owned(),
            }],
        ));
    }
    let now = call.now();
    let name = call.info.name.clone();
    update::change(call, Part::Main, true, Tracked::ByDifference, |_, old| {
        let bound = old["spec"]["nodeName"].as_str().unwrap_or_default();
        if !bound.is_empty() {
            return Err(ApiError::conflict(
                "",
                "pods/binding",
                &name,
                &format!("pod {name} is already assigned to node \"{bound}\""),
            ));
        }
        let mut new = old.clone();
        new["spec"]["nodeName"] = Value::from(node.as_str());
        Ok(new)
    })
    .await?;
    update::change(call, Part::Status, true, Tracked::ByDifference, |_, old| {
        let mut new = old.clone();
        let condition = json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now});
        match new["status"]["conditions"].as_array_mut() {
            Some(list) => {
                list.retain(|other| other["type"] != "PodScheduled");
                list.push(condition);
            }
            None => new["status"]["conditions"] = json!([condition]),
        }
        Ok(new)
    })
    .await?;
    Ok(respond::json(
        StatusCode::CREATED,
        &json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}),
    ))
}

/// The object behind a connecting request. A proxy's name may have a scheme before it and a port behind it.
pub(super) async fn connected(call: &Call<'_>) -> Result<Subject, ApiError> {
    let name = call.info.name.as_str();
    let name = if call.info.subresource == "proxy" {
        bare_name(name)
    } else {
        name
    };
    let (source, key, served) = (
        call.server.source().clone(),
        call.key_of(name),
        call.served.clone(),
    );
    let found = source.get(&key).await.map_err(error::of_source)?;
    let stored = found.ok_or_else(|| call.not_found(name))?;
    let object = object::parse(&served, &stored.json)?;
    Ok(Subject::new(object, move || {
        let (source, key, served) = (source.clone(), key.clone(), served.clone());
        Box::pin(async move {
            let stored = source.get(&key).await.ok()??;
            object::parse(&served, &stored.json).ok()
        })
    }))
}

/// `name` of `name`, `name:port`, `scheme:name:port` and `scheme:name:`.
fn bare_name(text: &str) -> &str {
    let parts: Vec<&str> = text.split(':').collect();
    match parts[..] {
        [_, name, _] => name,
        [name, _] => name,
        _ => text,
    }
}

/// Hands a connecting request to what stands behind pods and nodes.
pub(super) async fn connect(
    server: &Arc<ApiServer>,
    info: &RequestInfo,
    user: &UserInfo,
    subject: Subject,
    request: Request<Body>,
) -> Result<Response<Body>, ApiError> {
    let Some(pods) = &server.config.pods else {
        let mut error = ApiError::new(
            Reason::Unknown,
            format!(
                "{} of {} is not served here: no node stands behind it",
                info.subresource, info.resource
            ),
        );
        error.code = 501;
        return Err(error);
    };
    Ok(pods.connect(info.clone(), user.clone(), subject, request).await)
}

#[cfg(test)]
mod tests {
    use super::bare_name;

    #[test]
    fn finds_the_name_between_scheme_and_port() {
        for text in ["a", "a:80", "https:a:443", "https:a:"] {
            assert_eq!(bare_name(text), "a", "{text}");
        }
    }
}

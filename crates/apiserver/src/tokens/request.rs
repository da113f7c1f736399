//! `serviceaccounts/token`: the rules of a TokenRequest, as a function from request to answer.

use jiff::{Timestamp, fmt::strtime};
use machinery::{ApiError, Cause};
use serde_json::{Value, json};

use super::{Bound, Claims, ObjectRef, TokenKeys};

/// The shortest lifetime that may be asked for.
pub const MIN_LIFETIME_SECONDS: i64 = 600;
/// The longest; longer wishes are cut to it.
pub const MAX_LIFETIME_SECONDS: i64 = 1 << 32;
/// What a request gets that does not say.
pub const DEFAULT_LIFETIME_SECONDS: i64 = 3_600;

/// Answers a TokenRequest for an existing service account. `bound` is the object that `spec.boundObjectRef` names,
/// as it is stored, `None` if there is none. The caller has checked that the account's namespace is the request's.
///
/// # Errors
/// 422 for a lifetime that is too short or a reference that cannot be bound; 404 if the bound object is gone; 409
/// if it or the account has another uid than the request names.
pub fn issue(
    keys: &TokenKeys,
    env: &clock::Env,
    account: &Value,
    request: &Value,
    bound: Option<&Value>,
) -> Result<Value, ApiError> {
    let namespace = text(&account["metadata"]["namespace"]);
    let name = text(&account["metadata"]["name"]);
    let uid = text(&account["metadata"]["uid"]);
    let wanted_uid = &request["metadata"]["uid"];
    if wanted_uid
        .as_str()
        .is_some_and(|wanted| !wanted.is_empty() && wanted != uid)
    {
        return Err(ApiError::conflict(
            "",
            "serviceaccounts",
            &name,
            &format!(
                "the UID in the token request ({}) does not match the UID of the service account ({uid})",
                text(wanted_uid)
            ),
        ));
    }
    let spec = &request["spec"];
    let lifetime = match spec["expirationSeconds"].as_i64() {
        None => DEFAULT_LIFETIME_SECONDS,
        Some(seconds) => seconds,
    };
    let invalid = |field: &str, message: String| {
        ApiError::invalid(
            "authentication.k8s.io",
            "TokenRequest",
            "",
            vec![Cause {
                reason: "FieldValueInvalid".to_owned(),
                message,
                field: field.to_owned(),
            }],
        )
    };
    if lifetime < MIN_LIFETIME_SECONDS {
        let message = format!("Invalid value: {lifetime}: may not specify a duration less than 10 minutes");
        return Err(invalid("spec.expirationSeconds", message));
    }
    let lifetime_limit = MAX_LIFETIME_SECONDS;
    if lifetime > lifetime_limit {
        let message =
            format!("Invalid value: {lifetime}: may not specify a duration larger than 2^32 seconds");
        return Err(invalid("spec.expirationSeconds", message));
    }
    let mut audiences: Vec<String> = spec["audiences"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default()
        .iter()
        .map(text)
        .collect();
    if audiences.is_empty() {
        audiences = keys.audiences().to_vec();
    }
    let bound = bound_object(&spec["boundObjectRef"], &name, bound).map_err(|problem| match problem {
        Problem::Invalid(field, message) => invalid(field, message),
        Problem::Other(error) => error,
    })?;
    let now = env.now().as_second();
    let claims = Claims {
        namespace: namespace.clone(),
        account: ObjectRef {
            name: name.clone(),
            uid,
        },
        bound,
        audiences: audiences.clone(),
        not_before: now,
        expires: Some(now.saturating_add(lifetime)),
        issued: now,
        id: env.uuid(),
    };
    let token = keys
        .sign(&claims)
        .map_err(|error| ApiError::internal(format!("failed to generate token: {error}")))?;
    let mut answer_spec =
        json!({"audiences": audiences, "expirationSeconds": lifetime, "boundObjectRef": null});
    if !spec["boundObjectRef"].is_null() {
        answer_spec["boundObjectRef"] = spec["boundObjectRef"].clone();
    }
    Ok(json!({
        "kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"name": name, "namespace": namespace, "creationTimestamp": timestamp(now)},
        "spec": answer_spec,
        "status": {"token": token, "expirationTimestamp": timestamp(now.saturating_add(lifetime))},
    }))
}

/// The token of a `kubernetes.io/service-account-token` Secret.
///
/// # Errors
/// 500 if it cannot be signed.
pub fn secret_token(keys: &TokenKeys, account: &Value, secret_name: &str) -> Result<String, ApiError> {
    let claims = Claims {
        namespace: text(&account["metadata"]["namespace"]),
        account: ObjectRef {
            name: text(&account["metadata"]["name"]),
            uid: text(&account["metadata"]["uid"]),
        },
        bound: Bound::Secret(ObjectRef {
            name: secret_name.to_owned(),
            uid: String::new(),
        }),
        audiences: Vec::new(),
        not_before: 0,
        expires: None,
        issued: 0,
        id: String::new(),
    };
    keys.sign(&claims)
        .map_err(|error| ApiError::internal(format!("failed to generate token: {error}")))
}

enum Problem {
    Invalid(&'static str, String),
    Other(ApiError),
}

fn bound_object(reference: &Value, account: &str, found: Option<&Value>) -> Result<Bound, Problem> {
    if reference.is_null() {
        return Ok(Bound::Nothing);
    }
    let (kind, version) = (text(&reference["kind"]), text(&reference["apiVersion"]));
    let (name, uid) = (text(&reference["name"]), text(&reference["uid"]));
    let plural = match (version.as_str(), kind.as_str()) {
        ("v1", "Pod") => "pods",
        ("v1", "Secret") => "secrets",
        ("v1", "Node") => "nodes",
        _ => {
            let message = format!("cannot bind token to object of type {version}, Kind={kind}");
            return Err(Problem::Other(ApiError::bad_request(message)));
        }
    };
    if name.is_empty() {
        return Err(Problem::Invalid(
            "spec.boundObjectRef.name",
            "Required value".to_owned(),
        ));
    }
    let Some(found) = found else {
        return Err(Problem::Other(ApiError::not_found("", plural, &name)));
    };
    let found_uid = text(&found["metadata"]["uid"]);
    if !uid.is_empty() && uid != found_uid {
        return Err(Problem::Other(ApiError::conflict(
            "",
            plural,
            &name,
            &format!(
                "the UID in the bound object reference ({uid}) does not match the UID in record ({found_uid})"
            ),
        )));
    }
    let object = ObjectRef { name, uid: found_uid };
    match plural {
        "pods" => {
            let pod_account = found["spec"]["serviceAccountName"].as_str().unwrap_or("default");
            if pod_account != account {
                return Err(Problem::Other(ApiError::bad_request(format!(
                    "cannot bind token for serviceaccount \"{account}\" to pod running with different serviceaccount name \"{pod_account}\"."
                ))));
            }
            Ok(Bound::Pod(object, None))
        }
        "secrets" => Ok(Bound::Secret(object)),
        _ => Ok(Bound::Node(object)),
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn timestamp(second: i64) -> Value {
    let time = Timestamp::from_second(second).unwrap_or(Timestamp::MAX);
    json!(strtime::format("%Y-%m-%dT%H:%M:%SZ", time).unwrap_or_default())
}

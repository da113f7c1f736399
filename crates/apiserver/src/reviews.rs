//! The kinds that are only asked and never stored: access, rules, token and self-subject reviews. Each is a function
//! from the object that was posted to the object that is answered.

use machinery::{ApiError, Cause, Reason};
use serde_json::{Map, Value, json};

use crate::authn::{self, Gate};
use crate::authz::{Attributes, Authorizer, Rule, RuleKind, Verdict};
use crate::handlers::timestamp;
use crate::user::UserInfo;

const AUTHORIZATION: &str = "authorization.k8s.io";
const AUTHENTICATION: &str = "authentication.k8s.io";

/// Answers the creation of a review: `resource` is its plural, `namespace` that of the URL. `None` if the resource is
/// none of them.
///
/// # Errors
/// 422 for an object that asks nothing, 400 for a namespace mismatch; the authorizer's own errors.
pub async fn create(
    gate: &Gate,
    now: jiff::Timestamp,
    user: &UserInfo,
    group: &str,
    resource: &str,
    namespace: &str,
    object: &Value,
) -> Result<Option<Value>, ApiError> {
    let authorizer = gate.authorizer();
    Ok(Some(match (group, resource) {
        (AUTHORIZATION, "subjectaccessreviews") => subject_access(authorizer, object).await?,
        (AUTHORIZATION, "localsubjectaccessreviews") => local_access(authorizer, namespace, object).await?,
        (AUTHORIZATION, "selfsubjectaccessreviews") => self_access(authorizer, user, object).await?,
        (AUTHORIZATION, "selfsubjectrulesreviews") => self_rules(authorizer, user, object).await?,
        (AUTHENTICATION, "selfsubjectreviews") => self_subject(user, now),
        (AUTHENTICATION, "tokenreviews") => token(gate, object).await?,
        _ => return Ok(None),
    }))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn invalid(kind: &str, field: &str, message: &str) -> ApiError {
    let cause = Cause {
        reason: "FieldValueInvalid".to_owned(),
        message: message.to_owned(),
        field: field.to_owned(),
    };
    ApiError::invalid(AUTHORIZATION, kind, "", vec![cause])
}

/// The action that a review asks about.
fn attributes(kind: &str, spec: &Value) -> Result<Attributes, ApiError> {
    match (&spec["resourceAttributes"], &spec["nonResourceAttributes"]) {
        (Value::Object(_), Value::Null) => {
            let asked = &spec["resourceAttributes"];
            let mut resource = text(&asked["resource"]).to_owned();
            if !text(&asked["subresource"]).is_empty() {
                resource = format!("{resource}/{}", text(&asked["subresource"]));
            }
            Ok(Attributes::resource(
                text(&asked["verb"]),
                text(&asked["group"]),
                &resource,
                text(&asked["namespace"]),
                text(&asked["name"]),
            ))
        }
        (Value::Null, Value::Object(_)) => {
            let asked = &spec["nonResourceAttributes"];
            Ok(Attributes::path(text(&asked["verb"]), text(&asked["path"])))
        }
        _ => Err(invalid(
            kind,
            "spec.resourceAttributes",
            "Invalid value: \"null\": exactly one of nonResourceAttributes or resourceAttributes must be specified",
        )),
    }
}

/// The user that a review asks about.
fn subject(kind: &str, spec: &Value) -> Result<UserInfo, ApiError> {
    let strings = |value: &Value| -> Vec<String> {
        value
            .as_array()
            .map(|all| all.iter().map(|one| text(one).to_owned()).collect())
            .unwrap_or_default()
    };
    let user = UserInfo {
        name: text(&spec["user"]).to_owned(),
        uid: text(&spec["uid"]).to_owned(),
        groups: strings(&spec["groups"]),
        extra: spec["extra"]
            .as_object()
            .map(|all| {
                all.iter()
                    .map(|(key, values)| (key.clone(), strings(values)))
                    .collect()
            })
            .unwrap_or_default(),
    };
    if user.name.is_empty() && user.groups.is_empty() {
        let message = "Invalid value: \"\": at least one of user or group must be specified";
        return Err(invalid(kind, "spec.user", message));
    }
    Ok(user)
}

async fn access(
    authorizer: &dyn Authorizer,
    user: &UserInfo,
    attributes: &Attributes,
    object: &Value,
    kind: &str,
) -> Result<Value, ApiError> {
    let decision = authorizer.authorize(user, attributes).await?;
    let mut status = Map::new();
    status.insert("allowed".into(), json!(decision.is_allowed()));
    if decision.verdict == Verdict::Denied {
        status.insert("denied".into(), json!(true));
    }
    for (key, value) in [("reason", decision.reason), ("evaluationError", decision.problem)] {
        if !value.is_empty() {
            status.insert(key.into(), json!(value));
        }
    }
    Ok(answered(AUTHORIZATION, kind, object, Value::Object(status)))
}

/// The posted object with a status.
fn answered(group: &str, kind: &str, object: &Value, status: Value) -> Value {
    let metadata = if object["metadata"].is_object() {
        object["metadata"].clone()
    } else {
        json!({})
    };
    json!({
        "kind": kind, "apiVersion": format!("{group}/v1"), "metadata": metadata, "spec": object["spec"],
        "status": status,
    })
}

async fn subject_access(authorizer: &dyn Authorizer, object: &Value) -> Result<Value, ApiError> {
    const KIND: &str = "SubjectAccessReview";
    let spec = &object["spec"];
    let (attributes, user) = (attributes(KIND, spec)?, subject(KIND, spec)?);
    access(authorizer, &user, &attributes, object, KIND).await
}

async fn local_access(
    authorizer: &dyn Authorizer,
    namespace: &str,
    object: &Value,
) -> Result<Value, ApiError> {
    const KIND: &str = "LocalSubjectAccessReview";
    let spec = &object["spec"];
    let (attributes, user) = (attributes(KIND, spec)?, subject(KIND, spec)?);
    if !spec["nonResourceAttributes"].is_null() {
        let message = "Invalid value: \"\": disallowed on this kind of request";
        return Err(invalid(KIND, "spec.nonResourceAttributes", message));
    }
    if attributes.namespace() != namespace {
        return Err(ApiError::bad_request(format!(
            "spec.resourceAttributes.namespace must match namespace: {namespace}"
        )));
    }
    access(authorizer, &user, &attributes, object, KIND).await
}

async fn self_access(
    authorizer: &dyn Authorizer,
    user: &UserInfo,
    object: &Value,
) -> Result<Value, ApiError> {
    const KIND: &str = "SelfSubjectAccessReview";
    let attributes = attributes(KIND, &object["spec"])?;
    access(authorizer, user, &attributes, object, KIND).await
}

async fn self_rules(authorizer: &dyn Authorizer, user: &UserInfo, object: &Value) -> Result<Value, ApiError> {
    let namespace = text(&object["spec"]["namespace"]);
    if namespace.is_empty() {
        return Err(ApiError::bad_request("no namespace on request"));
    }
    let rules = authorizer.rules(user, namespace).await?;
    let shown = |kind: RuleKind| -> Vec<Value> {
        let of_kind = rules.iter().filter(|rule| rule.kind() == kind);
        of_kind.map(show_rule).collect()
    };
    let status = json!({
        "resourceRules": shown(RuleKind::Resources), "nonResourceRules": shown(RuleKind::Paths),
        "incomplete": false,
    });
    Ok(answered(AUTHORIZATION, "SelfSubjectRulesReview", object, status))
}

fn show_rule(rule: &Rule) -> Value {
    serde_json::to_value(rule).unwrap_or(Value::Null)
}

fn show_user(user: &UserInfo) -> Value {
    let mut shown = Map::new();
    shown.insert("username".into(), json!(user.name));
    if !user.uid.is_empty() {
        shown.insert("uid".into(), json!(user.uid));
    }
    if !user.groups.is_empty() {
        shown.insert("groups".into(), json!(user.groups));
    }
    if !user.extra.is_empty() {
        shown.insert("extra".into(), json!(user.extra));
    }
    Value::Object(shown)
}

fn self_subject(user: &UserInfo, now: jiff::Timestamp) -> Value {
    json!({
        "kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"creationTimestamp": timestamp(now)}, "status": {"userInfo": show_user(user)},
    })
}

async fn token(gate: &Gate, object: &Value) -> Result<Value, ApiError> {
    const KIND: &str = "TokenReview";
    let spec = &object["spec"];
    let token = text(&spec["token"]);
    if token.is_empty() {
        return Err(ApiError::bad_request(
            "token is required for TokenReview in authentication",
        ));
    }
    let Some(authenticator) = gate.authenticator() else {
        return Err(ApiError::new(
            Reason::ServiceUnavailable,
            "this server does not authenticate tokens",
        ));
    };
    let mut audiences: Vec<String> = spec["audiences"]
        .as_array()
        .map(|all| all.iter().map(|one| text(one).to_owned()).collect())
        .unwrap_or_default();
    if audiences.is_empty() {
        audiences = authenticator.tokens().audiences().to_vec();
    }
    let status = match authenticator.authenticate_token(token, &audiences).await {
        Ok(found) => {
            json!({"authenticated": true, "user": show_user(&found.user), "audiences": found.audiences})
        }
        // "No" would make whoever asks refuse a token that may be good.
        Err(refusal) if refusal.is_open() => return Err(authn::undecided()),
        Err(refusal) => json!({"authenticated": false, "user": {}, "error": refusal.to_string()}),
    };
    Ok(answered(AUTHENTICATION, KIND, object, status))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::authz::fake::FakeSource;
    use crate::authz::{AllowAll, Rbac};

    fn gate() -> Gate {
        let source = FakeSource::default();
        source.put(
            "rbac.authorization.k8s.io/clusterroles",
            &json!({"metadata": {"name": "reads"}, "rules": [
                {"verbs": ["get"], "apiGroups": [""], "resources": ["pods/log"]},
                {"verbs": ["get"], "nonResourceURLs": ["/metrics"]},
            ]}),
        );
        source.put(
            "rbac.authorization.k8s.io/clusterrolebindings",
            &json!({"metadata": {"name": "reads"}, "roleRef": {"kind": "ClusterRole", "name": "reads"},
                    "subjects": [{"kind": "User", "name": "ann"}]}),
        );
        Gate::new(None, Arc::new(Rbac::new(Arc::new(source))))
    }

    async fn ask(resource: &str, spec: Value) -> Result<Value, ApiError> {
        let group = if resource.starts_with("token") || resource == "selfsubjectreviews" {
            AUTHENTICATION
        } else {
            AUTHORIZATION
        };
        let user = UserInfo::new("ann", &[]);
        let object = json!({ "spec": spec });
        create(
            &gate(),
            jiff::Timestamp::UNIX_EPOCH,
            &user,
            group,
            resource,
            "shop",
            &object,
        )
        .await
        .map(|answer| answer.unwrap()["status"].clone())
    }

    #[tokio::test]
    async fn answers_what_somebody_may() {
        let logs = json!({"verb": "get", "resource": "pods", "subresource": "log", "namespace": "shop", "name": "a"});
        let status = ask(
            "subjectaccessreviews",
            json!({"user": "ann", "resourceAttributes": logs}),
        )
        .await
        .unwrap();
        assert_eq!(
            status,
            json!({"allowed": true, "reason": "RBAC: allowed by ClusterRoleBinding \"reads\" of ClusterRole \"reads\" to user \"ann\""})
        );
        let status = ask(
            "subjectaccessreviews",
            json!({"user": "bob", "resourceAttributes": logs}),
        )
        .await
        .unwrap();
        assert_eq!(status, json!({"allowed": false}));
        let status = ask(
            "localsubjectaccessreviews",
            json!({"user": "ann", "resourceAttributes": logs}),
        )
        .await
        .unwrap();
        assert_eq!(status["allowed"], true);
        let status = ask(
            "selfsubjectaccessreviews",
            json!({"nonResourceAttributes": {"verb": "get", "path": "/metrics"}}),
        )
        .await
        .unwrap();
        assert_eq!(status["allowed"], true);
        for (resource, spec, code) in [
            ("subjectaccessreviews", json!({"user": "ann"}), 422),
            ("subjectaccessreviews", json!({"resourceAttributes": logs}), 422),
            ("subjectaccessreviews", json!(null), 422),
            (
                "subjectaccessreviews",
                json!({"user": "ann", "resourceAttributes": logs, "nonResourceAttributes": {}}),
                422,
            ),
            (
                "localsubjectaccessreviews",
                json!({"user": "ann", "resourceAttributes": {"namespace": "other"}}),
                400,
            ),
            ("selfsubjectrulesreviews", json!({}), 400),
            ("tokenreviews", json!({}), 400),
            ("tokenreviews", json!({"token": "x"}), 503),
        ] {
            assert_eq!(
                ask(resource, spec.clone()).await.unwrap_err().code,
                code,
                "{resource} {spec}"
            );
        }
    }

    #[tokio::test]
    async fn lists_the_rules_of_the_caller_and_who_it_is() {
        let status = ask("selfsubjectrulesreviews", json!({"namespace": "shop"}))
            .await
            .unwrap();
        assert_eq!(
            status,
            json!({
                "resourceRules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods/log"]}],
                "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/metrics"]}],
                "incomplete": false,
            })
        );
        let status = ask("selfsubjectreviews", json!(null)).await.unwrap();
        assert_eq!(
            status["userInfo"],
            json!({"username": "ann", "groups": ["system:authenticated"]})
        );
    }

    #[tokio::test]
    async fn leaves_other_resources_alone() {
        let gate = Gate::new(None, Arc::new(AllowAll));
        let user = UserInfo::anonymous();
        let now = jiff::Timestamp::UNIX_EPOCH;
        let answer = create(&gate, now, &user, "", "pods", "", &json!({}))
            .await
            .unwrap();
        assert!(answer.is_none());
    }
}

//! Who callers are and what they may do, asked of the cluster that the hub serves (TokenReview, SubjectAccessReview).

use apiserver::UserInfo;
use apiserver::authz::{Attributes, Decision, Target, Verdict};
use apiserver::delegated::{AccessReviewer, TokenReviewer};
use futures::future::BoxFuture;
use kubeio::Client;
use machinery::{ApiError, ApiResource};
use serde_json::{Value, json};

use crate::respond;

const TOKEN_REVIEWS: ApiResource =
    ApiResource::cluster("authentication.k8s.io", "v1", "tokenreviews", "TokenReview");
const ACCESS_REVIEWS: ApiResource = ApiResource::cluster(
    "authorization.k8s.io",
    "v1",
    "subjectaccessreviews",
    "SubjectAccessReview",
);

/// Asks a cluster whose a token is, and who may do what.
#[derive(Debug)]
pub struct Reviews(Client);

impl Reviews {
    /// Asks with this client, which needs the right to create both kinds of reviews.
    pub fn of(client: Client) -> Self {
        Self(client)
    }
}

impl TokenReviewer for Reviews {
    fn review<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Option<UserInfo>, ApiError>> {
        Box::pin(async move {
            let review = json!({
                "apiVersion": TOKEN_REVIEWS.api_version(), "kind": "TokenReview", "spec": {"token": token},
            });
            let answer = self
                .0
                .create(&TOKEN_REVIEWS, None, &review)
                .await
                .map_err(respond::from_parent)?;
            let status = &answer["status"];
            Ok((status["authenticated"] == true).then(|| user(&status["user"])))
        })
    }
}

impl AccessReviewer for Reviews {
    fn review<'a>(
        &'a self,
        user: &'a UserInfo,
        attributes: &'a Attributes,
    ) -> BoxFuture<'a, Result<Decision, ApiError>> {
        Box::pin(async move {
            let review = access_review(user, attributes);
            let answer = self
                .0
                .create(&ACCESS_REVIEWS, None, &review)
                .await
                .map_err(respond::from_parent)?;
            let status = &answer["status"];
            let verdict = match (status["allowed"] == true, status["denied"] == true) {
                (true, _) => Verdict::Allowed,
                (false, true) => Verdict::Denied,
                (false, false) => Verdict::NoOpinion,
            };
            let text = |field: &str| status[field].as_str().unwrap_or_default().to_owned();
            Ok(Decision {
                verdict,
                reason: text("reason"),
                problem: text("evaluationError"),
            })
        })
    }
}

fn user(value: &Value) -> UserInfo {
    let texts = |value: &Value| -> Vec<String> {
        let all = value.as_array().map(Vec::as_slice).unwrap_or_default();
        all.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    UserInfo {
        name: value["username"].as_str().unwrap_or_default().to_owned(),
        uid: value["uid"].as_str().unwrap_or_default().to_owned(),
        groups: texts(&value["groups"]),
        extra: value["extra"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, values)| (key.clone(), texts(values)))
            .collect(),
    }
}

fn access_review(user: &UserInfo, attributes: &Attributes) -> Value {
    let mut review = json!({
        "apiVersion": ACCESS_REVIEWS.api_version(), "kind": "SubjectAccessReview",
        "spec": {"user": user.name, "uid": user.uid, "groups": user.groups, "extra": secretless(user)},
    });
    match &attributes.target {
        Target::Resource {
            group,
            version,
            resource,
            subresource,
            namespace,
            name,
        } => {
            review["spec"]["resourceAttributes"] = json!({
                "verb": attributes.verb.as_str(), "group": group.as_str(), "version": version.as_str(),
                "resource": resource.as_str(), "subresource": subresource.as_str(),
                "namespace": namespace.as_str(), "name": name.as_str(),
            });
        }
        Target::Path(path) => {
            review["spec"]["nonResourceAttributes"] = json!({"verb": attributes.verb.as_str(), "path": path});
        }
    }
    review
}

/// The user's extras without the child credentials among them: rights never depend on those, and audit logs keep what
/// is reviewed.
fn secretless(user: &UserInfo) -> Value {
    let extra = user
        .extra
        .iter()
        .filter(|(key, _)| !key.to_ascii_lowercase().starts_with("clusternet-"));
    extra
        .map(|(key, values)| (key.clone(), json!(values)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_review_names_the_action_and_no_child_credential() {
        let mut jane = UserInfo::new("jane", &["ops"]);
        jane.extra
            .insert("clusternet-token".to_owned(), vec!["secret".to_owned()]);
        jane.extra.insert("scopes".to_owned(), vec!["a".to_owned()]);
        let review = access_review(
            &jane,
            &Attributes::resource("get", "proxies.clusternet.io", "sockets", "", "id"),
        );
        assert_eq!(review["spec"]["extra"], json!({"scopes": ["a"]}));
        let attributes = &review["spec"]["resourceAttributes"];
        assert_eq!(
            (&attributes["resource"], &attributes["name"]),
            (&json!("sockets"), &json!("id"))
        );
        let path = access_review(&jane, &Attributes::path("get", "/metrics"));
        assert_eq!(
            path["spec"]["nonResourceAttributes"],
            json!({"verb": "get", "path": "/metrics"})
        );
    }

    #[test]
    fn a_reviewed_user_keeps_everything() {
        let read = user(&json!({"username": "jane", "uid": "1", "groups": ["a"], "extra": {"k": ["v"]}}));
        assert_eq!(
            (read.name.as_str(), read.uid.as_str(), read.groups),
            ("jane", "1", vec!["a".to_owned()])
        );
        assert_eq!(read.extra["k"], ["v"]);
    }
}

//! Acting as somebody else, where that is allowed: the `Impersonate-*` headers, each value of which the caller must
//! have the verb `impersonate` for. Extra keys are percent-decoded, as proxies' credentials arrive in them.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderName};
use machinery::ApiError;

use crate::authz::{Attributes, Authorizer, require};
use crate::query::extra_key;
use crate::user::{AUTHENTICATED, UNAUTHENTICATED, UserInfo};

const USER: &str = "impersonate-user";
const UID: &str = "impersonate-uid";
const GROUP: &str = "impersonate-group";
const EXTRA: &str = "impersonate-extra-";
const AUTHENTICATION: &str = "authentication.k8s.io";
const ANONYMOUS: &str = "system:anonymous";
/// More values than this cannot be meant seriously; each costs a decision.
const MAX_VALUES: usize = 512;

/// What a request's headers ask for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) groups: Vec<String>,
    pub(crate) extra: BTreeMap<String, Vec<String>>,
}

/// The user that a request acts for: the caller itself without such headers. They are taken out of the request.
///
/// # Errors
/// 403 in Kubernetes' words for whoever may not; 400 for headers that make no sense.
pub async fn apply(
    authorizer: &dyn Authorizer,
    caller: UserInfo,
    headers: &mut HeaderMap,
) -> Result<UserInfo, ApiError> {
    let Some(wanted) = take(headers)? else {
        return Ok(caller);
    };
    let account = service_account(&wanted.name);
    for attributes in actions(&wanted, account) {
        require(authorizer, &caller, &attributes).await?;
    }
    Ok(become_user(wanted))
}

/// Takes the headers out of a request.
pub(crate) fn take(headers: &mut HeaderMap) -> Result<Option<Wanted>, ApiError> {
    let ours: Vec<HeaderName> = headers
        .keys()
        .filter(|name| name.as_str().starts_with("impersonate-"))
        .cloned()
        .collect();
    if ours.is_empty() {
        return Ok(None);
    }
    let mut wanted = Wanted::default();
    let mut count = 0;
    for name in ours {
        let mut values = Vec::new();
        for value in headers.get_all(&name) {
            let text = value
                .to_str()
                .map_err(|_| ApiError::bad_request(format!("the header {name} is not readable")))?;
            values.push(text.to_owned());
        }
        headers.remove(&name);
        count += values.len();
        if count > MAX_VALUES {
            return Err(ApiError::bad_request(format!(
                "the request asks to impersonate more than {MAX_VALUES} values"
            )));
        }
        match name.as_str() {
            USER => wanted.name = values.swap_remove(0),
            UID => wanted.uid = values.swap_remove(0),
            GROUP => wanted.groups = values,
            other => {
                if let Some(key) = other.strip_prefix(EXTRA).map(extra_key) {
                    // Whoever passes it on in a header would break that.
                    if key.contains(char::is_control) {
                        return Err(ApiError::bad_request(format!(
                            "the header {name} stands for a key with control characters: leave them out"
                        )));
                    }
                    wanted.extra.entry(key).or_default().extend(values);
                }
            }
        }
    }
    if !wanted.name.is_empty() {
        return Ok(Some(wanted));
    }
    if wanted == Wanted::default() {
        return Ok(None);
    }
    Err(ApiError::bad_request(
        "the request asks to impersonate groups, a uid or extra values without impersonating a user",
    ))
}

/// Everything that the caller must be allowed to do.
fn actions(wanted: &Wanted, account: Option<(&str, &str)>) -> Vec<Attributes> {
    let on = |group: &str, resource: &str, namespace: &str, name: &str| {
        Attributes::resource("impersonate", group, resource, namespace, name)
    };
    let mut all = vec![match account {
        Some((namespace, name)) => on("", "serviceaccounts", namespace, name),
        None => on("", "users", "", &wanted.name),
    }];
    all.extend(wanted.groups.iter().map(|group| on("", "groups", "", group)));
    if !wanted.uid.is_empty() {
        all.push(on(AUTHENTICATION, "uids", "", &wanted.uid));
    }
    for (key, values) in &wanted.extra {
        let resource = format!("userextras/{key}");
        let resource = resource.trim_end_matches('/');
        all.extend(values.iter().map(|value| on(AUTHENTICATION, resource, "", value)));
    }
    all
}

fn become_user(wanted: Wanted) -> UserInfo {
    let Wanted {
        name,
        uid,
        mut groups,
        extra,
    } = wanted;
    if let (true, Some((namespace, account))) = (groups.is_empty(), service_account(&name)) {
        groups = UserInfo::service_account(namespace, account).groups;
    }
    let has = |group: &str| groups.iter().any(|one| one == group);
    if name == ANONYMOUS {
        if !has(UNAUTHENTICATED) {
            groups.push(UNAUTHENTICATED.to_owned());
        }
    } else if !has(AUTHENTICATED) && !has(UNAUTHENTICATED) {
        groups.push(AUTHENTICATED.to_owned());
    }
    UserInfo {
        name,
        uid,
        groups,
        extra,
    }
}

/// Namespace and name of a service account's user name.
pub(crate) fn service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    (!namespace.is_empty() && !name.is_empty() && !name.contains(':')).then_some((namespace, name))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http::HeaderValue;
    use serde_json::json;

    use super::*;
    use crate::authz::Rbac;
    use crate::authz::fake::FakeSource;

    fn rbac() -> Rbac {
        let source = FakeSource::default();
        source.put(
            "rbac.authorization.k8s.io/clusterroles",
            &json!({"metadata": {"name": "acts"}, "rules": [
                {"verbs": ["impersonate"], "apiGroups": [""], "resources": ["users"], "resourceNames": ["clusternet"]},
                {"verbs": ["impersonate"], "apiGroups": [""], "resources": ["groups"], "resourceNames": ["dev"]},
                {"verbs": ["impersonate"], "apiGroups": [""], "resources": ["serviceaccounts"]},
                {"verbs": ["impersonate"], "apiGroups": [AUTHENTICATION], "resources": ["userextras/clusternet-token"]},
            ]}),
        );
        source.put(
            "rbac.authorization.k8s.io/clusterrolebindings",
            &json!({"metadata": {"name": "acts"}, "roleRef": {"kind": "ClusterRole", "name": "acts"},
                    "subjects": [{"kind": "Group", "name": UNAUTHENTICATED}]}),
        );
        Rbac::new(Arc::new(source))
    }

    async fn check(pairs: &[(&'static str, &str)], want: &str) {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        let got = match apply(&rbac(), UserInfo::anonymous(), &mut headers).await {
            Ok(user) => {
                assert!(headers.is_empty());
                format!("{} [{}] {:?}", user.name, user.groups.join(" "), user.extra)
            }
            Err(error) => format!("{} {}", error.code, error.message),
        };
        assert_eq!(got, want, "{pairs:?}");
    }

    #[tokio::test]
    async fn acts_for_whom_the_caller_may() {
        check(&[], "system:anonymous [system:unauthenticated] {}").await;
        check(&[(USER, "clusternet")], "clusternet [system:authenticated] {}").await;
        check(
            &[
                (USER, "clusternet"),
                ("impersonate-extra-Clusternet-Token", "a"),
                ("impersonate-extra-clusternet%2dtoken", "b"),
            ],
            r#"clusternet [system:authenticated] {"clusternet-token": ["a", "b"]}"#,
        )
        .await;
        check(
            &[(USER, "clusternet"), (GROUP, "dev")],
            "clusternet [dev system:authenticated] {}",
        )
        .await;
        check(
            &[(USER, "system:serviceaccount:shop:robot")],
            "system:serviceaccount:shop:robot [system:serviceaccounts system:serviceaccounts:shop system:authenticated] {}",
        )
        .await;
    }

    #[tokio::test]
    async fn refuses_whom_it_may_not() {
        check(
            &[(USER, "root")],
            r#"403 users "root" is forbidden: User "system:anonymous" cannot impersonate resource "users" in API group "" at the cluster scope"#,
        )
        .await;
        check(
            &[(USER, "clusternet"), (GROUP, "dev"), (GROUP, "system:masters")],
            r#"403 groups "system:masters" is forbidden: User "system:anonymous" cannot impersonate resource "groups" in API group "" at the cluster scope"#,
        )
        .await;
        check(
            &[(USER, "clusternet"), ("impersonate-extra-", "x")],
            r#"403 userextras.authentication.k8s.io "x" is forbidden: User "system:anonymous" cannot impersonate resource "userextras" in API group "authentication.k8s.io" at the cluster scope"#,
        )
        .await;
        check(
            &[(USER, "clusternet"), ("impersonate-extra-other", "x")],
            r#"403 userextras.authentication.k8s.io "x" is forbidden: User "system:anonymous" cannot impersonate resource "userextras/other" in API group "authentication.k8s.io" at the cluster scope"#,
        )
        .await;
        check(
            &[(USER, "clusternet"), ("impersonate-extra-a%0Ab", "x")],
            "400 the header impersonate-extra-a%0ab stands for a key with control characters: leave them out",
        )
        .await;
        check(
            &[(GROUP, "dev")],
            "400 the request asks to impersonate groups, a uid or extra values without impersonating a user",
        )
        .await;
    }
}

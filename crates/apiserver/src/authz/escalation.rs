//! Rights may only be handed on by who has them: checked when roles and bindings are written.

use machinery::ApiError;
use serde_json::Value;

use super::rbac::GROUP;
use super::rules::{Rule, missing};
use super::{Attributes, Authorizer, RoleRef, forbidden};
use crate::user::{MASTERS, UserInfo};

/// Whether a user may write a Role or ClusterRole: it must hold every right of the new version (in the role's
/// namespace, or cluster-wide), or have the verb `escalate`. An update that leaves the rules alone may always pass.
///
/// # Errors
/// 403 in Kubernetes' words; the authorizer's own errors.
pub async fn check_role(
    authorizer: &dyn Authorizer,
    user: &UserInfo,
    plural: &str,
    old: Option<&Value>,
    new: &Value,
) -> Result<(), ApiError> {
    if user.is_in(MASTERS) {
        return Ok(());
    }
    let (namespace, name) = address(plural == "roles", new);
    let same = |field: &str| old.is_some_and(|old| old[field] == new[field]);
    if same("rules") && same("aggregationRule") {
        return Ok(());
    }
    let escalate = Attributes::resource("escalate", GROUP, plural, namespace, name);
    if authorizer.authorize(user, &escalate).await?.is_allowed() {
        return Ok(());
    }
    let held = authorizer.rules(user, namespace).await?;
    if plural == "clusterroles" && !new["aggregationRule"].is_null() && !same("aggregationRule") {
        // What such a role will hold is not known yet.
        if !missing(&held, &Rule::everything()).is_empty() {
            let why = "must have cluster-admin privileges to use the aggregationRule";
            return Err(forbidden(GROUP, plural, name, why));
        }
    }
    refuse_missing(user, plural, name, &missing(&held, &Rule::of_role(new)))
}

/// Whether a user may write a RoleBinding or ClusterRoleBinding: it must hold every right of the role that is bound,
/// or have the verb `bind` on it. An update that changes neither role nor subjects may always pass.
///
/// # Errors
/// 403 in Kubernetes' words, also for a role that is not there; the authorizer's own errors.
pub async fn check_binding(
    authorizer: &dyn Authorizer,
    user: &UserInfo,
    plural: &str,
    old: Option<&Value>,
    new: &Value,
) -> Result<(), ApiError> {
    if user.is_in(MASTERS) {
        return Ok(());
    }
    let (namespace, name) = address(plural == "rolebindings", new);
    if old.is_some_and(|old| old["roleRef"] == new["roleRef"] && old["subjects"] == new["subjects"]) {
        return Ok(());
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let role = RoleRef {
        kind: text(&new["roleRef"]["kind"]),
        name: text(&new["roleRef"]["name"]),
    };
    let role_plural = if role.kind == "ClusterRole" {
        "clusterroles"
    } else {
        "roles"
    };
    let bind = Attributes::resource("bind", GROUP, role_plural, namespace, &role.name);
    if authorizer.authorize(user, &bind).await?.is_allowed() {
        return Ok(());
    }
    let Some(wanted) = authorizer.role(&role, namespace).await? else {
        return Err(ApiError::not_found(GROUP, role_plural, &role.name));
    };
    let held = authorizer.rules(user, namespace).await?;
    refuse_missing(user, plural, name, &missing(&held, &wanted))
}

fn address(namespaced: bool, object: &Value) -> (&str, &str) {
    let text = |value: &'static str| object["metadata"][value].as_str().unwrap_or_default();
    let namespace = if namespaced { text("namespace") } else { "" };
    (namespace, text("name"))
}

fn refuse_missing(user: &UserInfo, plural: &str, name: &str, missing: &[Rule]) -> Result<(), ApiError> {
    if missing.is_empty() {
        return Ok(());
    }
    let groups: Vec<String> = user.groups.iter().map(|group| format!("{group:?}")).collect();
    let rules: Vec<String> = missing.iter().map(Rule::to_compact).collect();
    let why = format!(
        "user {:?} (groups=[{}]) is attempting to grant RBAC permissions not currently held:\n{}",
        user.name,
        groups.join(" "),
        rules.join("\n")
    );
    Err(forbidden(GROUP, plural, name, &why))
}

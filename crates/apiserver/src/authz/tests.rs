use std::sync::Arc;

use serde_json::{Value, json};

use super::fake::FakeSource;
use super::*;

fn role(kind: &str, namespace: &str, name: &str, rules: Value) -> (String, Value) {
    let object = json!({"kind": kind, "metadata": {"namespace": namespace, "name": name}, "rules": rules});
    (
        format!("rbac.authorization.k8s.io/{}s", kind.to_lowercase()),
        object,
    )
}

fn binding(kind: &str, namespace: &str, name: &str, role: (&str, &str), subjects: Value) -> (String, Value) {
    let object = json!({
        "kind": kind, "metadata": {"namespace": namespace, "name": name},
        "roleRef": {"kind": role.0, "name": role.1}, "subjects": subjects,
    });
    (
        format!("rbac.authorization.k8s.io/{}s", kind.to_lowercase()),
        object,
    )
}

fn world() -> (FakeSource, Rbac) {
    let source = FakeSource::default();
    for (resource, object) in [
        role(
            "ClusterRole",
            "",
            "reader",
            json!([{"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "pods/log"]}]),
        ),
        role(
            "ClusterRole",
            "",
            "scaler",
            json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*/scale"]},
                   {"verbs": ["get"], "nonResourceURLs": ["/healthz", "/healthz/*"]}]),
        ),
        role(
            "Role",
            "shop",
            "one-secret",
            json!([{"verbs": ["get", "create"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["key"]}]),
        ),
        role(
            "Role",
            "shop",
            "granter",
            json!([{"verbs": ["*"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"]}]),
        ),
        binding(
            "RoleBinding",
            "shop",
            "reads",
            ("ClusterRole", "reader"),
            json!([{"kind": "User", "name": "ann"}, {"kind": "ServiceAccount", "name": "robot"}]),
        ),
        binding(
            "ClusterRoleBinding",
            "",
            "scales",
            ("ClusterRole", "scaler"),
            json!([{"kind": "Group", "name": "ops"}]),
        ),
        binding(
            "RoleBinding",
            "shop",
            "key",
            ("Role", "one-secret"),
            json!([{"kind": "User", "name": "ann"}]),
        ),
        binding(
            "RoleBinding",
            "shop",
            "grants",
            ("Role", "granter"),
            json!([{"kind": "User", "name": "ann"}]),
        ),
        binding(
            "RoleBinding",
            "shop",
            "dangling",
            ("Role", "gone"),
            json!([{"kind": "User", "name": "bob"}]),
        ),
    ] {
        source.put(&resource, &object);
    }
    let rbac = Rbac::new(Arc::new(source.clone()));
    (source, rbac)
}

fn ann() -> UserInfo {
    UserInfo::new("ann", &[])
}

async fn may(rbac: &Rbac, user: &UserInfo, attributes: &Attributes) -> bool {
    rbac.authorize(user, attributes).await.unwrap().is_allowed()
}

#[tokio::test]
async fn decides_by_rules_and_bindings() {
    let (_, rbac) = world();
    let ops = UserInfo::new("olga", &["ops"]);
    let robot = UserInfo::service_account("shop", "robot");
    let admin = UserInfo::new("root", &["system:masters"]);
    let on = Attributes::resource;
    for (user, attributes, allowed) in [
        (&ann(), on("get", "", "pods", "shop", "web"), true),
        (&ann(), on("get", "", "pods/log", "shop", "web"), true),
        (&ann(), on("get", "", "pods/exec", "shop", "web"), false),
        (&ann(), on("delete", "", "pods", "shop", "web"), false),
        (&ann(), on("get", "", "pods", "other", "web"), false),
        (&ann(), on("list", "", "pods", "", ""), false),
        (&ann(), on("get", "apps", "pods", "shop", "web"), false),
        (&robot, on("list", "", "pods", "shop", ""), true),
        (&ann(), on("get", "", "secrets", "shop", "key"), true),
        (&ann(), on("get", "", "secrets", "shop", "other"), false),
        (&ann(), on("create", "", "secrets", "shop", ""), false),
        (&ops, on("patch", "apps", "deployments/scale", "any", "web"), true),
        (&ops, on("patch", "apps", "deployments", "any", "web"), false),
        (&ops, Attributes::path("get", "/healthz"), true),
        (&ops, Attributes::path("get", "/healthz/ping"), true),
        (&ops, Attributes::path("get", "/healthzz"), false),
        (&ops, Attributes::path("post", "/healthz"), false),
        (&admin, on("delete", "x", "anything/at-all", "y", "z"), true),
        (&UserInfo::anonymous(), Attributes::path("get", "/healthz"), false),
    ] {
        assert_eq!(
            may(&rbac, user, &attributes).await,
            allowed,
            "{} {attributes:?}",
            user.name
        );
    }
}

#[tokio::test]
async fn sees_a_change_at_once_and_survives_a_source_that_forgot() {
    let (source, rbac) = world();
    let list = Attributes::resource("list", "", "pods", "shop", "");
    let bob = UserInfo::new("bob", &[]);
    assert!(!may(&rbac, &bob, &list).await);
    let (resource, object) = role(
        "Role",
        "shop",
        "gone",
        json!([{"verbs": ["list"], "apiGroups": [""], "resources": ["*"]}]),
    );
    source.put(&resource, &object);
    assert!(may(&rbac, &bob, &list).await);
    source.remove(&resource, "shop", "gone");
    assert!(!may(&rbac, &bob, &list).await);
    source.put(&resource, &object);
    source.remove("rbac.authorization.k8s.io/rolebindings", "shop", "reads");
    source.forget();
    assert!(may(&rbac, &bob, &list).await);
    assert!(
        !may(
            &rbac,
            &ann(),
            &Attributes::resource("get", "", "pods", "shop", "web")
        )
        .await
    );
}

#[tokio::test]
async fn words_a_refusal_as_kubernetes_does() {
    let (_, rbac) = world();
    let message = async |attributes: Attributes| {
        require(&rbac, &UserInfo::new("x", &[]), &attributes)
            .await
            .unwrap_err()
            .message
    };
    assert_eq!(
        message(Attributes::resource("list", "", "pods", "y", "")).await,
        r#"pods is forbidden: User "x" cannot list resource "pods" in API group "" in the namespace "y""#
    );
    assert_eq!(
        message(Attributes::resource(
            "get",
            "apps",
            "deployments/scale",
            "",
            "web"
        ))
        .await,
        r#"deployments.apps "web" is forbidden: User "x" cannot get resource "deployments/scale" in API group "apps" at the cluster scope"#
    );
    assert_eq!(
        message(Attributes::path("get", "/metrics")).await,
        r#"forbidden: User "x" cannot get path "/metrics""#
    );
    let bob = UserInfo::new("bob", &[]);
    let error = require(&rbac, &bob, &Attributes::resource("get", "", "pods", "shop", "a"))
        .await
        .unwrap_err();
    assert_eq!(error.code, 403);
    assert!(
        error
            .message
            .ends_with(r#": RBAC: role.rbac.authorization.k8s.io "gone" not found"#),
        "{}",
        error.message
    );
}

#[tokio::test]
async fn nobody_hands_on_rights_that_they_do_not_have() {
    let (_, rbac) = world();
    let check = async |kind: &str, rules: Value, want: &str| {
        let (_, object) = role(kind, "shop", "new", rules);
        let plural = format!("{}s", kind.to_lowercase());
        let got = match check_role(&rbac, &ann(), &plural, None, &object).await {
            Ok(()) => "ok".to_owned(),
            Err(error) => error.message,
        };
        assert_eq!(got, want);
    };
    // "granter" has `*` on roles, which includes the verb escalate: take somebody without it.
    check(
        "Role",
        json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]),
        "ok",
    )
    .await;
    let (source, rbac) = world();
    source.remove("rbac.authorization.k8s.io/rolebindings", "shop", "grants");
    let check = async |old: Option<Value>, rules: Value, want: &str| {
        let (_, object) = role("Role", "shop", "new", rules);
        let old = old.map(|rules| role("Role", "shop", "new", rules).1);
        let got = match check_role(&rbac, &ann(), "roles", old.as_ref(), &object).await {
            Ok(()) => "ok".to_owned(),
            Err(error) => format!("{} {}", error.code, error.message),
        };
        assert_eq!(got, want);
    };
    let pods = |verbs: Value| json!([{"verbs": verbs, "apiGroups": [""], "resources": ["pods"]}]);
    check(None, pods(json!(["get", "list"])), "ok").await;
    let prefix = r#"403 roles.rbac.authorization.k8s.io "new" is forbidden: user "ann" (groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently held:"#;
    let wanted =
        format!("{prefix}\n{{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"delete\" \"patch\"]}}");
    check(None, pods(json!(["get", "delete", "patch"])), &wanted).await;
    check(Some(pods(json!(["delete"]))), pods(json!(["delete"])), "ok").await;
    let wanted = format!("{prefix}\n{{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"*\"]}}");
    check(None, pods(json!(["*"])), &wanted).await;
    let secret = |names: Value| json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": names}]);
    check(None, secret(json!(["key"])), "ok").await;
    let wanted = format!(
        "{prefix}\n{{APIGroups:[\"\"], Resources:[\"secrets\"], ResourceNames:[\"other\"], Verbs:[\"get\"]}}"
    );
    check(None, secret(json!(["key", "other"])), &wanted).await;
    let wanted = format!("{prefix}\n{{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\"]}}");
    check(None, secret(json!([])), &wanted).await;
}

#[tokio::test]
async fn a_binding_needs_the_rights_of_its_role_or_the_verb_bind() {
    let (source, rbac) = world();
    source.remove("rbac.authorization.k8s.io/rolebindings", "shop", "grants");
    let check = async |name: &str, role: (&str, &str), code: u16| {
        let (_, object) = binding("RoleBinding", "shop", "new", role, json!([]));
        let got = check_binding(&rbac, &ann(), "rolebindings", None, &object).await;
        assert_eq!(got.err().map_or(200, |error| error.code), code, "{name}");
    };
    check("held through another binding", ("ClusterRole", "reader"), 200).await;
    check("held", ("Role", "one-secret"), 200).await;
    check("not held", ("ClusterRole", "scaler"), 403).await;
    check("not there", ("Role", "nothing"), 404).await;
    let (resource, object) = role(
        "ClusterRole",
        "",
        "binder",
        json!([{"verbs": ["bind"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "resourceNames": ["scaler"]}]),
    );
    source.put(&resource, &object);
    let (resource, object) = binding(
        "RoleBinding",
        "shop",
        "binds",
        ("ClusterRole", "binder"),
        json!([{"kind": "User", "name": "ann"}]),
    );
    source.put(&resource, &object);
    check("may bind this one", ("ClusterRole", "scaler"), 200).await;
    check("but not that one", ("Role", "granter"), 403).await;
}

#[tokio::test]
async fn aggregation_rules_are_for_administrators() {
    let (_, rbac) = world();
    let (_, mut object) = role("ClusterRole", "", "new", json!([]));
    object["aggregationRule"] = json!({"clusterRoleSelectors": []});
    let error = check_role(&rbac, &ann(), "clusterroles", None, &object)
        .await
        .unwrap_err();
    assert!(
        error.message.contains("must have cluster-admin privileges"),
        "{}",
        error.message
    );
}

#[test]
fn an_unreadable_rule_grants_nothing() {
    for rules in [
        json!("everything"),
        json!([{"verbs": "*"}]),
        json!([7]),
        json!([{"verbs": ["*"], "apiGroups": null, "resources": ["*"]}]),
    ] {
        let role = json!({ "rules": rules });
        let allowed = Rule::of_role(&role)
            .iter()
            .any(|rule| rule.allows(&Attributes::resource("get", "", "pods", "", "")));
        assert!(!allowed, "{rules}");
    }
}

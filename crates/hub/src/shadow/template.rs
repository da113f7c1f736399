//! Objects as Manifests, and back.

use api::annotations::FEED_PROTECTION;
use api::labels::{
    CONFIG_GROUP, CONFIG_KIND, CONFIG_NAME, CONFIG_NAMESPACE, CONFIG_VERSION, CREATED_BY, CREATED_BY_HUB,
};
use machinery::names::{is_dns1123_subdomain, validate_label_value};
use machinery::{ApiResource, meta};
use serde_json::{Value, json};

use super::trim::trim;

/// Holds the true value of a `config.*` label that no label can hold.
const LONG_VALUES: [(&str, &str); 2] = [
    (CONFIG_NAME, "apps.clusternet.io/config.name"),
    (CONFIG_NAMESPACE, "apps.clusternet.io/config.namespace"),
];

/// A Manifest's name: `<plural>.<namespace>.<name>`, or `<plural>.<name>`. What is no object's name (too long, or with
/// characters such as the colon of RBAC names) gets a digest.
pub(crate) fn manifest_name(plural: &str, namespace: &str, name: &str) -> String {
    let joined = if namespace.is_empty() {
        format!("{plural}.{name}")
    } else {
        format!("{plural}.{namespace}.{name}")
    };
    if is_dns1123_subdomain(&joined).is_ok() {
        return joined;
    }
    let plain = |c: char| {
        if c.is_ascii_lowercase() || c.is_ascii_digit() || c == '.' {
            c
        } else {
            '-'
        }
    };
    let start: String = joined.chars().take(200).map(plain).collect();
    format!(
        "{}.x{}",
        start
            .trim_matches(['-', '.'])
            .replace(".-", "-")
            .replace("-.", "-"),
        digest(&joined)
    )
}

/// The name that older hubs gave.
pub(crate) fn legacy_name(plural: &str, namespace: &str, name: &str) -> String {
    if namespace.is_empty() {
        format!("{plural}-{name}")
    } else {
        format!("{plural}-{namespace}-{name}")
    }
}

/// A name as a label's value; what no label can hold becomes a digest.
pub(crate) fn label_value(text: &str) -> String {
    match validate_label_value(text) {
        Ok(()) => text.to_owned(),
        Err(_) => format!("x{}", digest(text)),
    }
}

/// FNV-1a, 64 bits: stable across versions and machines, which is all that is asked of it.
fn digest(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// The labels that say what a Manifest stands for.
fn identity(
    resource: &ApiResource,
    version: &str,
    namespace: &str,
    name: &str,
) -> Vec<(&'static str, String)> {
    vec![
        (CREATED_BY, CREATED_BY_HUB.to_owned()),
        (CONFIG_GROUP, resource.group.to_string()),
        (CONFIG_VERSION, version.to_owned()),
        (CONFIG_KIND, resource.kind.to_string()),
        (CONFIG_NAME, label_value(name)),
        (CONFIG_NAMESPACE, label_value(namespace)),
    ]
}

/// Makes the Manifest of an object; trims the object. `old` is the Manifest as it is now: labels that others put on it
/// stay, labels that the object has lost go.
pub fn to_manifest(resource: &ApiResource, reserved: &str, mut object: Value, old: Option<&Value>) -> Value {
    trim(&mut object);
    if let Some(annotations) = object
        .pointer_mut("/metadata/annotations")
        .and_then(Value::as_object_mut)
    {
        annotations.remove(FEED_PROTECTION);
    }
    let namespace = if resource.namespaced {
        meta::namespace(&object).to_owned()
    } else {
        String::new()
    };
    let name = meta::name(&object).to_owned();
    let version = meta::gvk(&object).version;
    let mut manifest = old.cloned().unwrap_or_else(|| {
        json!({
            "apiVersion": api::apps::MANIFESTS.api_version(), "kind": "Manifest",
            "metadata": {"name": manifest_name(&resource.plural, &namespace, &name), "namespace": reserved},
        })
    });
    let mut labels = meta::labels(&manifest).cloned().unwrap_or_default();
    if let Some(old) = old {
        let gone = meta::labels(&old["template"]).cloned().unwrap_or_default();
        labels.retain(|key, value| gone.get(key) != Some(value));
    }
    labels.extend(meta::labels(&object).cloned().unwrap_or_default());
    for (key, value) in identity(resource, &version, &namespace, &name) {
        labels.insert(key.to_owned(), Value::String(value));
    }
    manifest["metadata"]["labels"] = Value::Object(labels);
    for ((label, annotation), value) in LONG_VALUES.into_iter().zip([&name, &namespace]) {
        if manifest["metadata"]["labels"][label] != value.as_str() {
            meta::set_annotation(&mut manifest, annotation, value);
        }
    }
    match old.map(|old| meta::uid(&old["template"])) {
        Some(uid) if !uid.is_empty() => object["metadata"]["uid"] = json!(uid),
        Some(_) | None => {}
    }
    manifest["template"] = object;
    manifest
}

/// The object as the shadow API shows it: the template with the Manifest's identity.
pub(crate) fn to_object(manifest: &Value) -> Value {
    let mut object = manifest["template"].clone();
    let metadata = meta::ensure_metadata(&mut object);
    for field in [
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        match manifest["metadata"].get(field) {
            Some(value) => {
                metadata.insert(field.to_owned(), value.clone());
            }
            None => {
                metadata.remove(field);
            }
        }
    }
    if let Some(protection) = meta::annotation(manifest, FEED_PROTECTION) {
        meta::set_annotation(&mut object, FEED_PROTECTION, protection);
    }
    object
}

/// Whether a Manifest stands for this object (its name alone may be another's in a group with an equal plural).
pub(crate) fn stands_for(manifest: &Value, resource: &ApiResource, namespace: &str, name: &str) -> bool {
    let template = &manifest["template"];
    meta::gvk(template).group == *resource.group
        && meta::kind(template) == &*resource.kind
        && meta::name(template) == name
        && (!resource.namespaced || meta::namespace(template) == namespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEPLOYMENTS: ApiResource = ApiResource::namespaced("apps", "v1", "deployments", "Deployment");

    fn web(labels: Value) -> Value {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {
            "name": "web", "namespace": "shop", "labels": labels, "uid": "dry-run", "resourceVersion": "7",
        }, "spec": {}, "status": {}})
    }

    /// U8, and what upstream refuses.
    #[test]
    fn names_of_manifests() {
        assert_eq!(
            manifest_name("foos", "kube-system", "abc"),
            "foos.kube-system.abc"
        );
        assert_eq!(manifest_name("bars", "", "abc"), "bars.abc");
        let colon = manifest_name("clusterroles", "", "system:node");
        assert!(is_dns1123_subdomain(&colon).is_ok(), "{colon}");
        assert_ne!(colon, manifest_name("clusterroles", "", "system-node"));
        let long = manifest_name("foos", &"n".repeat(63), &"a".repeat(253));
        assert!(is_dns1123_subdomain(&long).is_ok(), "{long}");
    }

    #[test]
    fn label_values_hold_or_digest_a_name() {
        assert_eq!(label_value("web"), "web");
        assert_eq!(label_value(""), "");
        for name in ["a".repeat(64), "system:node".to_owned()] {
            assert!(validate_label_value(&label_value(&name)).is_ok());
        }
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
            "name": "a".repeat(64), "namespace": "b",
        }});
        let resource = ApiResource::namespaced("", "v1", "configmaps", "ConfigMap");
        let manifest = to_manifest(&resource, "r", object, None);
        assert_eq!(
            meta::annotation(&manifest, "apps.clusternet.io/config.name"),
            Some("a".repeat(64).as_str())
        );
        assert_eq!(
            meta::annotation(&manifest, "apps.clusternet.io/config.namespace"),
            None
        );
    }

    /// Shape D of the specification, and O13.
    #[test]
    fn an_object_becomes_a_manifest_and_comes_back_with_its_identity() {
        let mut manifest = to_manifest(
            &DEPLOYMENTS,
            "clusternet-reserved",
            web(json!({"app": "web"})),
            None,
        );
        assert_eq!(
            manifest,
            json!({
                "apiVersion": "apps.clusternet.io/v1alpha1", "kind": "Manifest",
                "metadata": {"name": "deployments.shop.web", "namespace": "clusternet-reserved", "labels": {
                    "app": "web", "clusternet.io/created-by": "clusternet-hub",
                    "apps.clusternet.io/config.group": "apps", "apps.clusternet.io/config.version": "v1",
                    "apps.clusternet.io/config.kind": "Deployment", "apps.clusternet.io/config.name": "web",
                    "apps.clusternet.io/config.namespace": "shop",
                }},
                "template": {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {
                    "name": "web", "namespace": "shop", "labels": {"app": "web"}, "uid": "dry-run",
                }, "spec": {}},
            })
        );
        for (field, value) in [
            ("uid", json!("m")),
            ("resourceVersion", json!("9")),
            ("generation", json!(2)),
        ] {
            manifest["metadata"][field] = value;
        }
        meta::set_annotation(&mut manifest, FEED_PROTECTION, "in use by shop/app");
        let object = to_object(&manifest);
        assert_eq!(
            (
                meta::uid(&object),
                meta::resource_version(&object),
                meta::generation(&object)
            ),
            ("m", "9", 2)
        );
        assert_eq!(
            meta::annotation(&object, FEED_PROTECTION),
            Some("in use by shop/app")
        );
        assert!(stands_for(&manifest, &DEPLOYMENTS, "shop", "web"));
        let other = ApiResource::namespaced("other.io", "v1", "deployments", "Deployment");
        assert!(!stands_for(&manifest, &other, "shop", "web"));
    }

    #[test]
    fn an_update_drops_lost_labels_and_keeps_those_of_others() {
        let mut old = to_manifest(
            &DEPLOYMENTS,
            "r",
            web(json!({"app": "web", "tier": "front"})),
            None,
        );
        let base = "11111111-1111-4111-8111-111111111111";
        meta::set_label(&mut old, base, "Base");
        let mut changed = to_object(&old);
        changed["metadata"]["labels"] = json!({"app": "web2"});
        let new = to_manifest(&DEPLOYMENTS, "r", changed, Some(&old));
        assert_eq!(meta::label(&new, "app"), Some("web2"));
        assert_eq!(meta::label(&new, "tier"), None);
        assert_eq!(meta::label(&new, base), Some("Base"));
        assert_eq!(meta::uid(&new["template"]), "dry-run");
    }
}

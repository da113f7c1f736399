//! Namespaces, and what programs read: Secrets, ConfigMaps, service accounts.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use machinery::names;
use serde_json::{Value, json};

use super::fields::{items, named, present, text};
use super::{Strategy, default_field, field_mut};
use crate::problems::Problems;

/// All data of a Secret or ConfigMap together may have this many bytes.
const DATA_LIMIT: usize = 1 << 20;
/// The label that every namespace has, with its name.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// The finalizer of whoever empties a namespace that is going away.
const KUBERNETES: &str = "kubernetes";

/// The rules of namespaces.
pub(super) static NAMESPACE: Strategy = Strategy {
    default: |object| {
        let name = object["metadata"]["name"].clone();
        if let Some(name) = name.as_str()
            && let Some(labels) = field_mut(object, "metadata")
                .and_then(|metadata| field_mut(metadata, "labels"))
                .and_then(Value::as_object_mut)
        {
            labels.insert(NAME_LABEL.to_owned(), Value::from(name));
        }
    },
    create: |object| {
        if let Some(spec) = field_mut(object, "spec") {
            default_field(spec, "finalizers", json!([]));
            if let Some(list) = spec["finalizers"].as_array_mut()
                && !list.iter().any(|finalizer| finalizer == KUBERNETES)
            {
                list.push(Value::from(KUBERNETES));
            }
        }
        object["status"] = json!({"phase": "Active"});
    },
    update: |new, old| {
        new["spec"] = old["spec"].clone();
    },
    validate: |object, problems| {
        const STANDARD: [&str; 3] = [KUBERNETES, "orphan", "foregroundDeletion"];
        for (index, finalizer) in items(&object["spec"]["finalizers"]) {
            let path = format!("spec.finalizers[{index}]");
            named(finalizer, &path, names::qualified_name_problems, problems);
            if !text(finalizer).contains('/') && !STANDARD.iter().any(|known| finalizer == known) {
                problems.invalid(
                    path,
                    finalizer,
                    "name is neither a standard finalizer name nor is it fully qualified",
                );
            }
        }
    },
    label_names: true,
    ..Strategy::PLAIN
};

/// The rules of Secrets.
pub(super) static SECRET: Strategy = Strategy {
    default: |object| {
        default_field(object, "type", "Opaque");
        let texts = object
            .as_object_mut()
            .and_then(|object| object.remove("stringData"));
        if let Some(Value::Object(texts)) = texts
            && let Some(data) = field_mut(object, "data")
        {
            for (key, text) in texts {
                if let (Some(text), Some(data)) = (text.as_str(), data.as_object_mut()) {
                    data.insert(key, Value::from(STANDARD.encode(text)));
                }
            }
        }
    },
    validate: |object, problems| {
        keys(&object["data"], "data", problems);
        let mut size = 0;
        for (key, value) in object["data"].as_object().into_iter().flatten() {
            match value.as_str().map(|text| STANDARD.decode(text)) {
                Some(Ok(bytes)) => size += bytes.len(),
                _ if value.is_null() => {}
                _ => problems.invalid(
                    format!("data[{key}]"),
                    &json!("<value omitted>"),
                    "must be base64",
                ),
            }
        }
        too_long(size, problems);
        typed(object, problems);
    },
    validate_update: |new, old, problems| {
        if new["type"] != old["type"] {
            problems.immutable("type", &new["type"]);
        }
        immutable(new, old, problems);
    },
    ..Strategy::PLAIN
};

/// The rules of ConfigMaps.
pub(super) static CONFIG_MAP: Strategy = Strategy {
    validate: |object, problems| {
        keys(&object["data"], "data", problems);
        keys(&object["binaryData"], "binaryData", problems);
        let size = ["data", "binaryData"]
            .iter()
            .flat_map(|field| object[*field].as_object().into_iter().flatten())
            .map(|(_, value)| value.as_str().unwrap_or_default().len())
            .sum();
        too_long(size, problems);
    },
    validate_update: immutable,
    ..Strategy::PLAIN
};

/// The rules of service accounts.
pub(super) static SERVICE_ACCOUNT: Strategy = Strategy {
    returns_deleted: true,
    ..Strategy::PLAIN
};

/// What a Secret of a certain type must hold.
fn typed(secret: &Value, problems: &mut Problems) {
    const ACCOUNT: &str = "kubernetes.io/service-account.name";
    let data = &secret["data"];
    let need = |key: &str, problems: &mut Problems| {
        if data[key].is_null() {
            problems.required(format!("data[{key}]"), "");
        }
    };
    match text(&secret["type"]) {
        "kubernetes.io/tls" => {
            need("tls.crt", problems);
            need("tls.key", problems);
        }
        "kubernetes.io/basic-auth" if data["username"].is_null() && data["password"].is_null() => {
            need("username", problems);
            need("password", problems);
        }
        "kubernetes.io/ssh-auth" => {
            present(&data["ssh-privatekey"], "data[ssh-privatekey]", "", problems);
        }
        "kubernetes.io/service-account-token" => {
            let account = &secret["metadata"]["annotations"][ACCOUNT];
            present(account, &format!("metadata.annotations[{ACCOUNT}]"), "", problems);
        }
        "kubernetes.io/dockerconfigjson" => json_object(data, ".dockerconfigjson", problems),
        "kubernetes.io/dockercfg" => json_object(data, ".dockercfg", problems),
        _ => {}
    }
}

/// Refuses a key whose bytes are no JSON object, without telling what they are.
fn json_object(data: &Value, key: &str, problems: &mut Problems) {
    let path = format!("data[{key}]");
    let Some(encoded) = data[key].as_str() else {
        problems.required(path, "");
        return;
    };
    let is_object = STANDARD.decode(encoded).is_ok_and(|bytes| {
        serde_json::from_slice::<Value>(&bytes).is_ok_and(|value| value.is_object() || value.is_null())
    });
    if !is_object {
        problems.invalid(
            path,
            &json!("<secret contents redacted>"),
            "must be a JSON object",
        );
    }
}

fn keys(map: &Value, field: &str, problems: &mut Problems) {
    for key in map.as_object().into_iter().flatten().map(|(key, _)| key) {
        for problem in names::config_key_problems(key) {
            problems.invalid(format!("{field}[{key}]"), &Value::from(key.as_str()), problem);
        }
    }
}

fn too_long(size: usize, problems: &mut Problems) {
    if size > DATA_LIMIT {
        problems.too_long("data", &format!("may not be more than {DATA_LIMIT} bytes"));
    }
}

fn immutable(new: &Value, old: &Value, problems: &mut Problems) {
    if old["immutable"] != true {
        return;
    }
    if new["immutable"] != true {
        problems.forbidden("immutable", "field is immutable when `immutable` is set");
    }
    for field in ["data", "binaryData"] {
        if new[field] != old[field] {
            problems.forbidden(field, "field is immutable when `immutable` is set");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use super::*;

    #[test]
    fn secrets_take_plain_text() {
        let mut secret = json!({"metadata": {"name": "s"}, "stringData": {"a": "b"}, "data": {"c": "ZA=="}});
        (SECRET.default)(&mut secret);
        assert_eq!(secret["data"], json!({"a": "Yg==", "c": "ZA=="}));
        assert!(secret.get("stringData").is_none());
        assert_eq!(secret["type"], "Opaque");
        secret["data"]["c"] = json!("not base64!");
        let mut problems = Problems::default();
        (SECRET.validate)(&secret, &mut problems);
        let causes = problems.into_causes();
        assert!(
            !causes[0].message.contains("not base64!"),
            "secrets do not leak into messages"
        );
    }

    #[test]
    fn types_of_secrets_ask_for_their_keys() {
        let secret = |kind: &str, data: &[(&str, &str)]| {
            let data: serde_json::Map<String, Value> = data
                .iter()
                .map(|(key, text)| ((*key).to_owned(), Value::from(STANDARD.encode(text))))
                .collect();
            json!({"type": format!("kubernetes.io/{kind}"), "data": data})
        };
        const JSON: &str = "must be a JSON object";
        check(
            SECRET.validate,
            vec![
                (
                    secret("dockerconfigjson", &[(".dockerconfigjson", "{\"auths\":{}}")]),
                    vec![],
                ),
                (
                    secret("dockerconfigjson", &[(".dockerconfigjson", "{")]),
                    vec![("data[.dockerconfigjson]", JSON)],
                ),
                (
                    secret("dockerconfigjson", &[(".dockerconfigjson", "[]")]),
                    vec![("data[.dockerconfigjson]", JSON)],
                ),
                (
                    secret("dockerconfigjson", &[]),
                    vec![("data[.dockerconfigjson]", "Required value")],
                ),
                (
                    secret("dockercfg", &[(".dockercfg", "x")]),
                    vec![("data[.dockercfg]", JSON)],
                ),
                (
                    secret("dockercfg", &[]),
                    vec![("data[.dockercfg]", "Required value")],
                ),
                (secret("basic-auth", &[("password", "")]), vec![]),
                (
                    secret("basic-auth", &[]),
                    vec![
                        ("data[username]", "Required value"),
                        ("data[password]", "Required value"),
                    ],
                ),
                (
                    secret("ssh-auth", &[("ssh-privatekey", "")]),
                    vec![("data[ssh-privatekey]", "Required value")],
                ),
                (
                    secret("tls", &[("tls.crt", "")]),
                    vec![("data[tls.key]", "Required value")],
                ),
                (
                    secret("service-account-token", &[]),
                    vec![(
                        "metadata.annotations[kubernetes.io/service-account.name]",
                        "Required value",
                    )],
                ),
            ],
        );
    }

    #[test]
    fn namespaces_keep_good_finalizers() {
        const PATH: &str = "spec.finalizers[0]";
        let with = |finalizers: Value| json!({"metadata": {"name": "n"}, "spec": {"finalizers": finalizers}});
        check(
            NAMESPACE.validate,
            vec![
                (with(json!(["kubernetes", "a/x"])), vec![]),
                (
                    with(json!(["x"])),
                    vec![(
                        PATH,
                        "neither a standard finalizer name nor is it fully qualified",
                    )],
                ),
                (with(json!(["a/b/c"])), vec![(PATH, "qualified name")]),
            ],
        );
        let mut namespace = with(json!(["a/x"]));
        (NAMESPACE.create)(&mut namespace);
        assert_eq!(namespace["spec"]["finalizers"], json!(["a/x", "kubernetes"]));
    }

    #[test]
    fn namespaces_carry_their_name() {
        let mut namespace = json!({"metadata": {"name": "n"}});
        (NAMESPACE.default)(&mut namespace);
        (NAMESPACE.create)(&mut namespace);
        assert_eq!(namespace["metadata"]["labels"][NAME_LABEL], "n");
        assert_eq!(namespace["status"]["phase"], "Active");
    }
}

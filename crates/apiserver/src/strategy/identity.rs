//! Namespaces, and what programs read: Secrets, ConfigMaps, service accounts.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use machinery::names;
use serde_json::{Value, json};

use super::{Strategy, default_field, field_mut};
use crate::problems::Problems;

/// All data of a Secret or ConfigMap together may have this many bytes.
const DATA_LIMIT: usize = 1 << 20;
/// The label that every namespace has, with its name.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

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
        object["spec"] = json!({"finalizers": ["kubernetes"]});
        object["status"] = json!({"phase": "Active"});
    },
    update: |new, old| {
        new["spec"] = old["spec"].clone();
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
        if object["type"] == "kubernetes.io/tls" {
            for key in ["tls.crt", "tls.key"] {
                if object["data"][key].is_null() {
                    problems.required(format!("data[{key}]"), "");
                }
            }
        }
        if object["type"] == "kubernetes.io/service-account-token"
            && object["metadata"]["annotations"]["kubernetes.io/service-account.name"].is_null()
        {
            problems.required("metadata.annotations[kubernetes.io/service-account.name]", "");
        }
        if object["type"] == "kubernetes.io/dockerconfigjson" && object["data"][".dockerconfigjson"].is_null()
        {
            problems.required("data[.dockerconfigjson]", "");
        }
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
    fn namespaces_carry_their_name() {
        let mut namespace = json!({"metadata": {"name": "n"}});
        (NAMESPACE.default)(&mut namespace);
        (NAMESPACE.create)(&mut namespace);
        assert_eq!(namespace["metadata"]["labels"][NAME_LABEL], "n");
        assert_eq!(namespace["status"]["phase"], "Active");
    }
}

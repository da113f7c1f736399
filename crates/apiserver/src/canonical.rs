//! The one form in which an object of a built-in kind is stored, however it was written.

use codec::protobuf::{self, Quantities};
use machinery::quantity::Quantity;
use serde_json::Value;

/// Leaves out what is empty and the same as absent, and writes quantities as Kubernetes does: `0.5` is `500m`, and
/// what lists of resources hold is rounded up to thousandths.
///
/// # Errors
/// [`protobuf::Error::Field`] for what is no quantity.
pub(crate) fn settle(object: &mut Value) -> Result<(), protobuf::Error> {
    protobuf::normalize(
        object,
        Quantities {
            single: |value| Some(read(value)?.to_string()),
            of_resource: |value| Some(read(value)?.rounded_to_milli().to_string()),
        },
    )
}

fn read(value: &Value) -> Option<Quantity> {
    match value.as_str() {
        Some(text) => Quantity::parse(text.trim()).ok(),
        None => Quantity::from_json(value).ok(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn quantities_have_one_form() {
        for (written, limit, size) in [
            (json!(0.5), "500m", "500m"),
            (json!("0.5"), "500m", "500m"),
            (json!("1000m"), "1", "1"),
            (json!(1000), "1k", "1k"),
            (json!("1024Mi"), "1Gi", "1Gi"),
            (json!("1e3"), "1e3", "1e3"),
            (json!(" 1 "), "1", "1"),
            (json!("100u"), "1m", "100u"),
            (json!(null), "0", "0"),
        ] {
            let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "spec": {"overhead": {"cpu": written},
                "volumes": [{"name": "v", "emptyDir": {"sizeLimit": written}}]}});
            settle(&mut pod).unwrap();
            assert_eq!(pod["spec"]["overhead"]["cpu"], limit);
            assert_eq!(pod["spec"]["volumes"][0]["emptyDir"]["sizeLimit"], size);
            let once = pod.clone();
            settle(&mut pod).unwrap();
            assert_eq!(pod, once, "settled is settled");
        }
        for bad in [json!("abc"), json!(""), json!(true), json!([]), json!({})] {
            let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "spec": {"overhead": {"cpu": bad}}});
            let error = settle(&mut pod).unwrap_err().to_string();
            assert!(
                error.starts_with("spec.overhead.cpu: quantities must match"),
                "{error}"
            );
        }
    }
}

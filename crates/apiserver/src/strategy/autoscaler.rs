//! HorizontalPodAutoscalers, stored as `autoscaling/v2` and also spoken of as `autoscaling/v1` (kubectl up to 1.32
//! makes them so). What v1 has no fields for travels in the annotations that Kubernetes uses for it.

use serde_json::{Map, Value, json};

use super::{Strategy, default_field, field_mut, scaling};

/// The rules of HorizontalPodAutoscalers.
pub(super) static AUTOSCALER: Strategy = Strategy {
    default: |object| {
        let newest = object["apiVersion"] != V1;
        if let Some(spec) = field_mut(object, "spec") {
            default_field(spec, "minReplicas", 1);
            if newest {
                default_metrics(spec);
            }
        }
    },
    create: |object| {
        object["status"] = if object["apiVersion"] == V1 {
            json!({"currentReplicas": 0, "desiredReplicas": 0})
        } else {
            json!({"desiredReplicas": 0, "currentMetrics": null})
        };
    },
    validate: scaling::validate,
    convert: Some(convert),
    ..Strategy::PLAIN
};

pub(super) const V1: &str = "autoscaling/v1";
/// Places in v2, and the annotation that carries each in v1.
const CARRIED: [(&str, &str, &str); 4] = [
    ("spec", "metrics", "autoscaling.alpha.kubernetes.io/metrics"),
    ("spec", "behavior", "autoscaling.alpha.kubernetes.io/behavior"),
    (
        "status",
        "conditions",
        "autoscaling.alpha.kubernetes.io/conditions",
    ),
    (
        "status",
        "currentMetrics",
        "autoscaling.alpha.kubernetes.io/current-metrics",
    ),
];

fn default_metrics(spec: &mut Value) {
    default_field(spec, "metrics", json!([utilization_target(&json!(80))]));
}

fn utilization_target(percent: &Value) -> Value {
    json!({"type": "Resource", "resource": {"name": "cpu",
        "target": {"type": "Utilization", "averageUtilization": percent}}})
}

fn convert(object: &mut Value, api_version: &str) {
    if object["apiVersion"] == api_version {
        return;
    }
    if api_version == V1 {
        to_v1(object);
    } else {
        to_v2(object);
    }
    object["apiVersion"] = json!(api_version);
}

fn to_v1(object: &mut Value) {
    for (part, field, annotation) in CARRIED {
        let Some(mut value) = object
            .get_mut(part)
            .and_then(Value::as_object_mut)
            .and_then(|part| part.remove(field))
        else {
            continue;
        };
        if let Some(metrics) = value.as_array_mut().filter(|_| field.ends_with("etrics")) {
            let (place, name) = match part {
                "spec" => ("target", "targetCPUUtilizationPercentage"),
                _ => ("current", "currentCPUUtilizationPercentage"),
            };
            let percent = |metric: &Value| {
                let resource = &metric["resource"];
                Some(resource[place]["averageUtilization"].clone()).filter(|percent| {
                    metric["type"] == "Resource" && resource["name"] == "cpu" && percent.is_i64()
                })
            };
            if let Some(at) = metrics.iter().position(|metric| percent(metric).is_some()) {
                let metric = metrics.remove(at);
                object[part][name] = percent(&metric).unwrap_or_default();
            }
            if metrics.is_empty() {
                continue;
            }
        }
        if !value.is_null() {
            object["metadata"]["annotations"][annotation] = Value::from(value.to_string());
        }
    }
}

fn to_v2(object: &mut Value) {
    for (part, field, annotation) in CARRIED {
        let carried = object
            .pointer_mut("/metadata/annotations")
            .and_then(Value::as_object_mut)
            .and_then(|annotations| annotations.remove(annotation))
            .and_then(|text| serde_json::from_str::<Value>(text.as_str()?).ok())
            // A hand-written annotation is worth no broken object.
            .filter(|value| {
                if field == "behavior" {
                    value.is_object()
                } else {
                    value.is_array()
                }
            });
        let Some(target) = object.get_mut(part).and_then(Value::as_object_mut) else {
            continue;
        };
        if let Some(value) = carried {
            target.insert(field.to_owned(), value);
        }
    }
    if object["metadata"]["annotations"]
        .as_object()
        .is_some_and(Map::is_empty)
        && let Some(metadata) = object["metadata"].as_object_mut()
    {
        metadata.remove("annotations");
    }
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        let target = spec.remove("targetCPUUtilizationPercentage");
        if let Some(target) = target.filter(|target| !target.is_null()) {
            let metrics = spec.entry("metrics").or_insert_with(|| json!([]));
            if let Some(metrics) = metrics.as_array_mut() {
                metrics.insert(0, utilization_target(&target));
            }
        }
    }
    if let Some(spec) = field_mut(object, "spec") {
        default_metrics(spec);
    }
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut)
        && let Some(current) = status.remove("currentCPUUtilizationPercentage")
    {
        let metric = json!({"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": current}}});
        let metrics = status.entry("currentMetrics").or_insert_with(|| json!([]));
        if let Some(metrics) = metrics.as_array_mut() {
            metrics.insert(0, metric);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_say_the_same() {
        let old = json!({
            "apiVersion": "autoscaling/v1", "metadata": {"name": "h"},
            "spec": {"maxReplicas": 3, "targetCPUUtilizationPercentage": 50}, "status": {"desiredReplicas": 1},
        });
        let mut object = old.clone();
        convert(&mut object, "autoscaling/v2");
        assert_eq!(
            object,
            json!({
                "apiVersion": "autoscaling/v2", "metadata": {"name": "h"},
                "spec": {"maxReplicas": 3, "metrics": [utilization_target(&json!(50))]},
                "status": {"desiredReplicas": 1},
            })
        );
        convert(&mut object, V1);
        assert_eq!(object, old);
    }

    #[test]
    fn what_v1_has_no_fields_for_survives_it() {
        let new = json!({
            "apiVersion": "autoscaling/v2", "metadata": {"name": "h", "annotations": {"a": "b"}},
            "spec": {"behavior": {"scaleDown": {}}, "metrics": [
                {"type": "Resource", "resource": {"name": "memory"}},
            ]},
            "status": {"conditions": [{"type": "AbleToScale"}], "currentMetrics": null},
        });
        let mut object = new.clone();
        convert(&mut object, V1);
        assert!(object["spec"].get("metrics").is_none() && object["spec"].get("behavior").is_none());
        convert(&mut object, "autoscaling/v2");
        let mut want = new;
        want["status"].as_object_mut().unwrap().remove("currentMetrics");
        assert_eq!(object, want);
    }
}

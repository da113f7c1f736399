//! What a HorizontalPodAutoscaler may ask for, in either of its versions.

use machinery::names;
use serde_json::Value;

use super::autoscaler::V1;
use super::fields::{amount, items, one_of, present, text};
use crate::problems::Problems;

/// The sources of metrics: their types and the fields that hold them.
const SOURCES: [(&str, &str); 5] = [
    ("ContainerResource", "containerResource"),
    ("External", "external"),
    ("Object", "object"),
    ("Pods", "pods"),
    ("Resource", "resource"),
];

/// Refuses an autoscaler that could not scale.
pub(super) fn validate(object: &Value, problems: &mut Problems) {
    let spec = &object["spec"];
    let least = &spec["minReplicas"];
    if least.as_i64().is_some_and(|number| number < 1) {
        problems.invalid("spec.minReplicas", least, "must be greater than or equal to 1");
    }
    let most = spec["maxReplicas"].as_i64().unwrap_or(0);
    if most < 1 {
        problems.invalid("spec.maxReplicas", &Value::from(most), "must be greater than 0");
    }
    if least.as_i64().is_some_and(|least| most < least) {
        problems.invalid(
            "spec.maxReplicas",
            &Value::from(most),
            "must be greater than or equal to `minReplicas`",
        );
    }
    reference(&spec["scaleTargetRef"], "spec.scaleTargetRef", problems);
    if object["apiVersion"] == V1 {
        let percent = &spec["targetCPUUtilizationPercentage"];
        positive(
            percent,
            "spec.metrics[0].resource.target.averageUtilization",
            problems,
        );
        return;
    }
    for (index, found) in items(&spec["metrics"]) {
        metric(found, &format!("spec.metrics[{index}]"), problems);
    }
    for direction in ["scaleUp", "scaleDown"] {
        let path = format!("spec.behavior.{direction}");
        behavior(&spec["behavior"][direction], &path, problems);
    }
}

fn reference(value: &Value, path: &str, problems: &mut Problems) {
    for field in ["kind", "name"] {
        let path = format!("{path}.{field}");
        present(&value[field], &path, "", problems);
        for problem in names::path_segment_problems(text(&value[field])) {
            problems.invalid(path.as_str(), &value[field], problem);
        }
    }
    let version = text(&value["apiVersion"]);
    if version.matches('/').count() > 1 {
        problems.invalid(
            format!("{path}.apiVersion"),
            &value["apiVersion"],
            format!("unexpected GroupVersion string: {version}"),
        );
    }
}

fn positive(value: &Value, path: &str, problems: &mut Problems) {
    if value.as_i64().is_some_and(|number| number < 1) {
        problems.invalid(path, value, "must be greater than 0");
    }
}

fn metric(value: &Value, path: &str, problems: &mut Problems) {
    let kind = &value["type"];
    let Some((_, own)) = SOURCES.iter().find(|(name, _)| kind == name) else {
        let names = SOURCES.map(|(name, _)| name);
        problems.unsupported(format!("{path}.type"), kind, &names);
        return;
    };
    for (_, field) in SOURCES {
        if field != *own && !value[field].is_null() {
            problems.forbidden(
                format!("{path}.{field}"),
                "must populate the given metric source only",
            );
        }
    }
    let source = &value[*own];
    let path = format!("{path}.{own}");
    if source.is_null() {
        problems.required(path, "must populate information for the given metric source");
        return;
    }
    match *own {
        "resource" | "containerResource" => {
            present(
                &source["name"],
                &format!("{path}.name"),
                "must specify a resource name",
                problems,
            );
            if *own == "containerResource" {
                present(
                    &source["container"],
                    &format!("{path}.container"),
                    "must specify a container",
                    problems,
                );
            }
        }
        _ => present(
            &source["metric"]["name"],
            &format!("{path}.metric.name"),
            "must specify a metric name",
            problems,
        ),
    }
    if *own == "object" {
        reference(
            &source["describedObject"],
            &format!("{path}.describedObject"),
            problems,
        );
    }
    target(own, &source["target"], &format!("{path}.target"), problems);
}

fn target(source: &str, value: &Value, path: &str, problems: &mut Problems) {
    let kind = &value["type"];
    if text(kind).is_empty() {
        problems.required(format!("{path}.type"), "must specify a metric target type");
    } else if !["Utilization", "Value", "AverageValue"]
        .iter()
        .any(|known| kind == known)
    {
        problems.invalid(
            format!("{path}.type"),
            kind,
            "must be either Utilization, Value, or AverageValue",
        );
    }
    positive(
        &value["averageUtilization"],
        &format!("{path}.averageUtilization"),
        problems,
    );
    for field in ["value", "averageValue"] {
        if amount(&value[field]).is_some_and(|amount| amount.signum() <= 0) {
            problems.invalid(format!("{path}.{field}"), &value[field], "must be positive");
        }
    }
    let has = |field: &str| !value[field].is_null();
    let average = format!("{path}.averageValue");
    match source {
        "resource" | "containerResource" => match (has("averageUtilization"), has("averageValue")) {
            (true, true) => problems.forbidden(
                average,
                "may not set both a target raw value and a target utilization",
            ),
            (false, false) => problems.required(
                format!("{path}.averageUtilization"),
                "must set either a target raw value or a target utilization",
            ),
            (true, false) | (false, true) => {}
        },
        "pods" if !has("averageValue") => {
            problems.required(average, "must specify a positive target averageValue");
        }
        "external" if has("value") && has("averageValue") => problems.forbidden(
            format!("{path}.value"),
            "may not set both a target value for metric and a per-pod target",
        ),
        "external" | "object" if !has("value") && !has("averageValue") => problems.required(
            average,
            "must set either a target value for metric or a per-pod target",
        ),
        _ => {}
    }
}

fn behavior(rules: &Value, path: &str, problems: &mut Problems) {
    let window = &rules["stabilizationWindowSeconds"];
    let at = format!("{path}.stabilizationWindowSeconds");
    match window.as_i64() {
        Some(seconds) if seconds < 0 => {
            problems.invalid(at, window, "must be greater than or equal to zero");
        }
        Some(seconds) if seconds > 3_600 => {
            problems.invalid(at, window, "must be less than or equal to 3600")
        }
        Some(_) | None => {}
    }
    one_of(
        &rules["selectPolicy"],
        &format!("{path}.selectPolicy"),
        &["Disabled", "Max", "Min"],
        problems,
    );
    for (index, policy) in items(&rules["policies"]) {
        let path = format!("{path}.policies[{index}]");
        one_of(
            &policy["type"],
            &format!("{path}.type"),
            &["Percent", "Pods"],
            problems,
        );
        for (field, most) in [("value", i64::MAX), ("periodSeconds", 1_800)] {
            let number = policy[field].as_i64().unwrap_or(0);
            let at = format!("{path}.{field}");
            if number < 1 {
                problems.invalid(at, &Value::from(number), "must be greater than zero");
            } else if number > most {
                problems.invalid(
                    at,
                    &policy[field],
                    format!("must be less than or equal to {most}"),
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::check;
    use super::*;

    fn with(field: &str, value: Value) -> Value {
        let mut object = json!({"apiVersion": "autoscaling/v2", "spec": {"minReplicas": 1, "maxReplicas": 3,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}});
        object["spec"][field] = value;
        object
    }

    fn measuring(metric: Value) -> Value {
        with("metrics", json!([metric]))
    }

    #[test]
    fn bounds_must_hold() {
        const MOST: &str = "spec.maxReplicas";
        let mut old = with("targetCPUUtilizationPercentage", json!(0));
        old["apiVersion"] = json!(V1);
        check(
            validate,
            vec![
                (with("minReplicas", json!(3)), vec![]),
                (
                    with("maxReplicas", json!(0)),
                    vec![(MOST, "must be greater than 0"), (MOST, "equal to `minReplicas`")],
                ),
                (
                    with("minReplicas", json!(4)),
                    vec![(MOST, "must be greater than or equal to `minReplicas`")],
                ),
                (
                    with("minReplicas", json!(0)),
                    vec![("spec.minReplicas", "greater than or equal to 1")],
                ),
                (
                    with("scaleTargetRef", json!({"kind": "a/b"})),
                    vec![
                        ("spec.scaleTargetRef.kind", "may not contain '/'"),
                        ("spec.scaleTargetRef.name", "Required value"),
                    ],
                ),
                (
                    old,
                    vec![(
                        "spec.metrics[0].resource.target.averageUtilization",
                        "greater than 0",
                    )],
                ),
            ],
        );
    }

    #[test]
    fn metrics_must_be_measurable() {
        let resource = |target: Value| {
            measuring(json!({"type": "Resource", "resource": {"name": "cpu", "target": target}}))
        };
        const USE: &str = "spec.metrics[0].resource.target.averageUtilization";
        check(
            validate,
            vec![
                (
                    resource(json!({"type": "Utilization", "averageUtilization": 80})),
                    vec![],
                ),
                (
                    resource(json!({"type": "Utilization", "averageUtilization": 0})),
                    vec![(USE, "greater than 0")],
                ),
                (
                    resource(json!({"type": "X", "averageValue": "1"})),
                    vec![(
                        "spec.metrics[0].resource.target.type",
                        "must be either Utilization",
                    )],
                ),
                (
                    resource(json!({"type": "Value", "value": "1"})),
                    vec![(USE, "must set either")],
                ),
                (
                    resource(json!({"type": "Value", "averageValue": "0", "averageUtilization": 1})),
                    vec![
                        ("spec.metrics[0].resource.target.averageValue", "must be positive"),
                        ("spec.metrics[0].resource.target.averageValue", "may not set both"),
                    ],
                ),
                (
                    measuring(json!({"type": "X"})),
                    vec![("spec.metrics[0].type", "Unsupported value")],
                ),
                (
                    measuring(json!({"type": "Pods", "resource": {}})),
                    vec![
                        ("spec.metrics[0].resource", "the given metric source only"),
                        ("spec.metrics[0].pods", "must populate information"),
                    ],
                ),
                (
                    measuring(json!({"type": "Pods", "pods": {"target": {"type": "Value", "value": "1"}}})),
                    vec![
                        ("spec.metrics[0].pods.metric.name", "must specify a metric name"),
                        (
                            "spec.metrics[0].pods.target.averageValue",
                            "positive target averageValue",
                        ),
                    ],
                ),
            ],
        );
    }

    #[test]
    fn behavior_keeps_to_its_bounds() {
        let rules = json!({"stabilizationWindowSeconds": 3_601, "selectPolicy": "X", "policies": [
            {"type": "X", "value": 0, "periodSeconds": 1_801}]});
        check(
            validate,
            vec![(
                with(
                    "behavior",
                    json!({"scaleUp": rules, "scaleDown": {"stabilizationWindowSeconds": -1}}),
                ),
                vec![
                    (
                        "spec.behavior.scaleUp.stabilizationWindowSeconds",
                        "less than or equal to 3600",
                    ),
                    ("spec.behavior.scaleUp.selectPolicy", "Unsupported value"),
                    ("spec.behavior.scaleUp.policies[0].type", "Unsupported value"),
                    ("spec.behavior.scaleUp.policies[0].value", "greater than zero"),
                    (
                        "spec.behavior.scaleUp.policies[0].periodSeconds",
                        "less than or equal to 1800",
                    ),
                    (
                        "spec.behavior.scaleDown.stabilizationWindowSeconds",
                        "greater than or equal to zero",
                    ),
                ],
            )],
        );
    }
}

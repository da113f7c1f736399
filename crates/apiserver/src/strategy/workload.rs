//! What makes pods: Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs and CronJobs.

use machinery::selector::LabelSelector;
use serde_json::{Value, json};

use super::fields::{not_negative, one_of};
use super::pod::{default_spec, field_list, validate_spec};
use super::schedule;
use super::{Generation, Strategy, at_mut, default_field, default_object, field_mut, items_mut};
use crate::problems::Problems;

const WORKLOAD: Strategy = Strategy {
    generation: Generation::Spec,
    ..Strategy::PLAIN
};

/// The rules of Deployments.
pub(super) static DEPLOYMENT: Strategy = Strategy {
    default: |object| {
        default_spec_of(
            object,
            json!({"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600}),
        );
        if let Some(strategy) = spec_field(object, "strategy") {
            default_field(strategy, "type", "RollingUpdate");
            if strategy["type"] == "RollingUpdate"
                && let Some(rolling) = field_mut(strategy, "rollingUpdate")
            {
                default_object(rolling, json!({"maxUnavailable": "25%", "maxSurge": "25%"}));
            }
        }
    },
    create: |object| object["status"] = json!({}),
    validate: |object, problems| {
        replicas(object, problems);
        template(object, &["Always"], problems);
        let strategy = &object["spec"]["strategy"];
        one_of(
            &strategy["type"],
            "spec.strategy.type",
            &["Recreate", "RollingUpdate"],
            problems,
        );
        if strategy["type"] == "Recreate" && !strategy["rollingUpdate"].is_null() {
            problems.forbidden(
                "spec.strategy.rollingUpdate",
                "may not be specified when strategy `type` is 'Recreate'",
            );
        }
    },
    validate_update: same_selector,
    ..WORKLOAD
};

/// The rules of ReplicaSets.
pub(super) static REPLICA_SET: Strategy = Strategy {
    default: |object| {
        default_spec_of(object, json!({"replicas": 1}));
    },
    create: |object| object["status"] = json!({"replicas": 0}),
    validate: |object, problems| {
        replicas(object, problems);
        template(object, &["Always"], problems);
    },
    validate_update: same_selector,
    ..WORKLOAD
};

/// The rules of StatefulSets.
pub(super) static STATEFUL_SET: Strategy = Strategy {
    default: |object| {
        default_spec_of(
            object,
            json!({
                "replicas": 1, "revisionHistoryLimit": 10, "podManagementPolicy": "OrderedReady",
                "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
            }),
        );
        if let Some(strategy) = spec_field(object, "updateStrategy") {
            default_field(strategy, "type", "RollingUpdate");
            if strategy["type"] == "RollingUpdate"
                && let Some(rolling) = field_mut(strategy, "rollingUpdate")
            {
                default_field(rolling, "partition", 0);
            }
        }
        for claim in items_mut(object, &["spec", "volumeClaimTemplates"]) {
            default_object(
                claim,
                json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "status": {"phase": "Pending"}}),
            );
            if let Some(spec) = field_mut(claim, "spec") {
                default_field(spec, "volumeMode", "Filesystem");
            }
        }
    },
    create: |object| object["status"] = json!({"replicas": 0, "availableReplicas": 0}),
    validate: |object, problems| {
        replicas(object, problems);
        template(&with_claims(object), &["Always"], problems);
    },
    validate_update: |new, old, problems| {
        const MUTABLE: [&str; 7] = [
            "replicas",
            "ordinals",
            "template",
            "updateStrategy",
            "revisionHistoryLimit",
            "persistentVolumeClaimRetentionPolicy",
            "minReadySeconds",
        ];
        let rest = |object: &Value| {
            let mut spec = object["spec"].as_object().cloned().unwrap_or_default();
            spec.retain(|field, _| !MUTABLE.contains(&field.as_str()));
            spec
        };
        if rest(new) != rest(old) {
            problems.forbidden(
                "spec",
                "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
                 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and \
                 'minReadySeconds' are forbidden",
            );
        }
    },
    ..WORKLOAD
};

/// The rules of DaemonSets.
pub(super) static DAEMON_SET: Strategy = Strategy {
    default: |object| {
        default_spec_of(object, json!({"revisionHistoryLimit": 10}));
        if let Some(strategy) = spec_field(object, "updateStrategy") {
            default_field(strategy, "type", "RollingUpdate");
            if strategy["type"] == "RollingUpdate"
                && let Some(rolling) = field_mut(strategy, "rollingUpdate")
            {
                default_object(rolling, json!({"maxUnavailable": 1, "maxSurge": 0}));
            }
        }
    },
    create: |object| {
        object["status"] = json!({
            "currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0,
        });
    },
    validate: |object, problems| template(object, &["Always"], problems),
    validate_update: same_selector,
    ..WORKLOAD
};

/// The rules of Jobs.
pub(super) static JOB: Strategy = Strategy {
    default: |object| {
        if let Some(spec) = field_mut(object, "spec") {
            default_job(spec);
        }
    },
    create: |object| {
        object["status"] = json!({});
        label_job(object);
    },
    validate: |object, problems| {
        template(object, &["Never", "OnFailure"], problems);
        for field in [
            "completions",
            "parallelism",
            "backoffLimit",
            "activeDeadlineSeconds",
        ] {
            not_negative(&object["spec"][field], &format!("spec.{field}"), problems);
        }
    },
    validate_update: |new, old, problems| {
        same_selector(new, old, problems);
        for field in ["completionMode", "completions"] {
            if new["spec"][field] != old["spec"][field] {
                problems.immutable(format!("spec.{field}"), &new["spec"][field]);
            }
        }
        if new["spec"]["template"] != old["spec"]["template"] && old["spec"]["suspend"] != true {
            problems.immutable("spec.template", &Value::Null);
        }
    },
    ..WORKLOAD
};

/// The rules of CronJobs.
pub(super) static CRON_JOB: Strategy = Strategy {
    default: |object| {
        let Some(spec) = field_mut(object, "spec") else {
            return;
        };
        default_object(
            spec,
            json!({"concurrencyPolicy": "Allow", "suspend": false, "successfulJobsHistoryLimit": 3,
                "failedJobsHistoryLimit": 1}),
        );
        if let Some(job) = field_mut(spec, "jobTemplate").and_then(|template| field_mut(template, "spec")) {
            default_template(job);
        }
    },
    create: |object| object["status"] = json!({}),
    validate: |object, problems| {
        let spec = &object["spec"];
        let schedule = spec["schedule"].as_str().unwrap_or_default();
        if schedule.is_empty() {
            problems.required("spec.schedule", "");
        } else if let Some(problem) = schedule::problem(schedule) {
            problems.invalid("spec.schedule", &spec["schedule"], problem);
        }
        if let Some(problem) = spec["timeZone"].as_str().and_then(schedule::zone_problem) {
            problems.invalid("spec.timeZone", &spec["timeZone"], problem);
        }
        for field in [
            "startingDeadlineSeconds",
            "successfulJobsHistoryLimit",
            "failedJobsHistoryLimit",
        ] {
            not_negative(&spec[field], &format!("spec.{field}"), problems);
        }
        one_of(
            &spec["concurrencyPolicy"],
            "spec.concurrencyPolicy",
            &["Allow", "Forbid", "Replace"],
            problems,
        );
        const POD: &str = "spec.jobTemplate.spec.template.spec";
        let pod = &spec["jobTemplate"]["spec"]["template"]["spec"];
        validate_spec(pod, POD, problems);
        if pod["restartPolicy"] == "Always" {
            problems.required(
                format!("{POD}.restartPolicy"),
                "valid values: \"OnFailure\", \"Never\"",
            );
        }
    },
    ..WORKLOAD
};

fn spec_field<'a>(object: &'a mut Value, name: &str) -> Option<&'a mut Value> {
    field_mut(object, "spec").and_then(|spec| field_mut(spec, name))
}

fn default_spec_of(object: &mut Value, defaults: Value) {
    let Some(spec) = field_mut(object, "spec") else {
        return;
    };
    default_object(spec, defaults);
    default_template(spec);
}

fn default_template(spec: &mut Value) {
    if let Some(pod) = at_mut(spec, &["template", "spec"]) {
        default_spec(pod);
    }
}

fn default_job(spec: &mut Value) {
    if spec["completions"].is_null() && spec["parallelism"].is_null() {
        default_object(spec, json!({"completions": 1, "parallelism": 1}));
    }
    default_object(
        spec,
        json!({"parallelism": 1, "backoffLimit": 6, "completionMode": "NonIndexed", "suspend": false,
            "podReplacementPolicy": "TerminatingOrFailed", "manualSelector": false}),
    );
    default_template(spec);
}

/// A Job that chooses no selector of its own gets one that only its pods match.
fn label_job(job: &mut Value) {
    if job["spec"]["manualSelector"] == true {
        return;
    }
    let uid = job["metadata"]["uid"].clone();
    let name = job["metadata"]["name"].clone();
    // What is no object here is refused once its types are looked at.
    let Some(spec) = field_mut(job, "spec").filter(|spec| spec.is_object()) else {
        return;
    };
    if let Some(labels) = field_mut(spec, "template")
        .and_then(|template| field_mut(template, "metadata"))
        .and_then(|metadata| field_mut(metadata, "labels"))
        .and_then(Value::as_object_mut)
    {
        for (key, value) in [
            ("batch.kubernetes.io/controller-uid", &uid),
            ("controller-uid", &uid),
            ("batch.kubernetes.io/job-name", &name),
            ("job-name", &name),
        ] {
            labels.insert(key.to_owned(), value.clone());
        }
    }
    spec["selector"] = json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}});
    let labels = spec["template"]["metadata"]["labels"].clone();
    if let Some(metadata) = field_mut(job, "metadata") {
        default_field(metadata, "labels", labels);
    }
}

/// A StatefulSet whose pods have their claims among their volumes, as its controller makes them.
fn with_claims(object: &Value) -> Value {
    let mut object = object.clone();
    let mut volumes: Vec<Value> = items_mut(&mut object, &["spec", "volumeClaimTemplates"])
        .map(|claim| json!({"name": claim["metadata"]["name"]}))
        .collect();
    if let Some(list) =
        at_mut(&mut object, &["spec", "template", "spec"]).and_then(|pod| field_list(pod, "volumes"))
    {
        volumes.retain(|claim| list.iter().all(|volume| volume["name"] != claim["name"]));
        list.append(&mut volumes);
    }
    object
}

fn replicas(object: &Value, problems: &mut Problems) {
    not_negative(&object["spec"]["replicas"], "spec.replicas", problems);
}

/// Checks a pod template and that the selector selects its pods.
fn template(object: &Value, restart: &[&str], problems: &mut Problems) {
    let spec = &object["spec"];
    let pod = &spec["template"];
    let selector = &spec["selector"];
    let labels = &pod["metadata"]["labels"];
    if selector.is_null() {
        problems.required("spec.selector", "");
    } else {
        match LabelSelector::from_value(selector) {
            Ok(selector) if selector.is_everything() => problems.invalid(
                "spec.selector",
                &spec["selector"],
                "empty selector is invalid for deployment",
            ),
            Ok(selector) if !selector.matches_labels(labels) => problems.invalid(
                "spec.template.metadata.labels",
                labels,
                "`selector` does not match template `labels`",
            ),
            Ok(_) => {}
            Err(error) => problems.invalid("spec.selector", selector, error),
        }
    }
    validate_spec(&pod["spec"], "spec.template.spec", problems);
    let policy = &pod["spec"]["restartPolicy"];
    if !restart.iter().any(|allowed| policy == allowed) {
        problems.unsupported("spec.template.spec.restartPolicy", policy, restart);
    }
}

fn same_selector(new: &Value, old: &Value, problems: &mut Problems) {
    if new["spec"]["selector"] != old["spec"]["selector"] {
        problems.immutable("spec.selector", &new["spec"]["selector"]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use super::*;

    fn deployment() -> Value {
        json!({"metadata": {"name": "d"}, "spec": {
            "selector": {"matchLabels": {"app": "d"}},
            "template": {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}}})
    }

    #[test]
    fn a_deployment_gets_its_defaults_once() {
        let mut object = deployment();
        (DEPLOYMENT.default)(&mut object);
        let spec = &object["spec"];
        assert_eq!(spec["replicas"], 1);
        assert_eq!(
            spec["strategy"]["rollingUpdate"],
            json!({"maxUnavailable": "25%", "maxSurge": "25%"})
        );
        assert_eq!(
            spec["template"]["spec"]["containers"][0]["imagePullPolicy"],
            "IfNotPresent"
        );
        let once = object.clone();
        (DEPLOYMENT.default)(&mut object);
        assert_eq!(object, once);
        let mut problems = Problems::default();
        (DEPLOYMENT.validate)(&object, &mut problems);
        assert!(problems.into_causes().is_empty());
    }

    #[test]
    fn selectors_must_match_and_stay() {
        let mut object = deployment();
        (DEPLOYMENT.default)(&mut object);
        let mut other = object.clone();
        other["spec"]["template"]["metadata"]["labels"]["app"] = json!("x");
        let mut problems = Problems::default();
        (DEPLOYMENT.validate)(&other, &mut problems);
        assert_eq!(problems.into_causes()[0].field, "spec.template.metadata.labels");
        other["spec"]["selector"]["matchLabels"]["app"] = json!("x");
        let mut problems = Problems::default();
        (DEPLOYMENT.validate_update)(&other, &object, &mut problems);
        assert!(problems.into_causes()[0].message.ends_with("field is immutable"));
    }

    #[test]
    fn a_stateful_set_mounts_its_claims() {
        let check = |volumes: Value, mounted: &str, want: usize| {
            let mut object = deployment();
            object["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}}]);
            let pod = &mut object["spec"]["template"]["spec"];
            pod["volumes"] = volumes;
            pod["containers"][0]["volumeMounts"] = json!([{"name": mounted, "mountPath": "/data"}]);
            (STATEFUL_SET.default)(&mut object);
            let mut problems = Problems::default();
            (STATEFUL_SET.validate)(&object, &mut problems);
            assert_eq!(problems.into_causes().len(), want, "{object}");
        };
        check(Value::Null, "data", 0);
        check(json!([{"name": "data"}, {"name": "tmp"}]), "data", 0);
        check(json!([{"name": "tmp"}]), "tmp", 0);
        check(json!([{"name": "tmp"}]), "other", 1);
    }

    #[test]
    fn a_cron_job_ends_and_knows_its_time() {
        let with = |field: &str, value: Value, policy: &str| {
            let mut job = json!({"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": {"spec": {
                "restartPolicy": policy, "containers": [{"name": "c", "image": "i"}]}}}}}});
            job["spec"][field] = value;
            job
        };
        check(
            CRON_JOB.validate,
            vec![
                (with("timeZone", json!("Etc/UTC"), "Never"), vec![]),
                (
                    with("timeZone", json!("Nope/X"), "Never"),
                    vec![("spec.timeZone", "unknown time zone Nope/X")],
                ),
                (
                    with("failedJobsHistoryLimit", json!(-1), "OnFailure"),
                    vec![("spec.failedJobsHistoryLimit", "greater than or equal to 0")],
                ),
                (
                    with("suspend", json!(true), "Always"),
                    vec![(
                        "spec.jobTemplate.spec.template.spec.restartPolicy",
                        "valid values",
                    )],
                ),
            ],
        );
    }

    #[test]
    fn a_job_selects_its_own_pods() {
        let mut job = json!({"metadata": {"name": "j", "uid": "u"}, "spec": {"template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}});
        (JOB.default)(&mut job);
        (JOB.create)(&mut job);
        assert_eq!(job["spec"]["completions"], 1);
        assert_eq!(job["spec"]["template"]["metadata"]["labels"]["job-name"], "j");
        let mut problems = Problems::default();
        (JOB.validate)(&job, &mut problems);
        assert!(problems.into_causes().is_empty());
    }
}

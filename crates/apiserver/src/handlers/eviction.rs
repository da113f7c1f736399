//! Evictions: deletes of pods that keep to their disruption budgets.

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode, header};
use machinery::selector::LabelSelector;
use machinery::{ApiError, Cause, Reason, meta};
use serde_json::{Value, json};
use source::{Change, Error, Expect, ListRequest, Object, Write};

use super::delete::{check_preconditions, remove};
use super::{Call, metadata, update};
use crate::body::Body;
use crate::decode::{self, BodyFormat};
use crate::options::DeleteOptions;
use crate::registry::Served;
use crate::{error, object, respond};

const ATTEMPTS: u32 = 16;
/// So many evictions may wait to be seen by who keeps the budget.
const WAITING_LIMIT: usize = 2_000;
/// When to try again, in seconds.
const RETRY_AFTER: u32 = 10;

/// Evicts a pod: deletes it as the eviction's own options say, if its budget allows it.
pub(super) async fn evict(call: &mut Call<'_>, body: Bytes) -> Result<Response<Body>, ApiError> {
    let format = BodyFormat::from_content_type(call.header(header::CONTENT_TYPE))?;
    let (mut eviction, _) = decode::decode(format, &body)?;
    let options = eviction.get_mut("deleteOptions").map_or(Value::Null, Value::take);
    let mut options = DeleteOptions::of_body(&options)?;
    options.dry_run |= call.options.dry_run;
    let name = call.info.name.clone();
    // The older version has the same fields.
    let version = match meta::api_version(&eviction) {
        older @ "policy/v1beta1" => older.to_owned(),
        _ => "policy/v1".to_owned(),
    };
    metadata::admit_other(call, &mut eviction, &version, "Eviction")?;
    if meta::name(&eviction) != name {
        return Err(ApiError::bad_request(
            "name in URL does not match name in Eviction object",
        ));
    }
    let stored = call.existing().await?;
    check_preconditions(call, &name, &stored, &options)?;
    let pod = object::parse(&call.served, &stored.json)?;
    let snapshot = call.server.registry.snapshot();
    if let Some(budgets) = snapshot.find("policy", "v1", "poddisruptionbudgets") {
        spend(call, budgets, &pod, options.dry_run).await?;
    }
    // The pod that was judged, and no other that has come in its place.
    options.uid.get_or_insert_with(|| meta::uid(&pod).to_owned());
    remove(call, &name, &options).await?;
    Ok(respond::json(
        StatusCode::CREATED,
        &json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}),
    ))
}

/// Takes one disruption from the budget of a pod, if it has one.
async fn spend(call: &Call<'_>, served: &Served, pod: &Value, dry_run: bool) -> Result<(), ApiError> {
    for attempt in 1.. {
        let stored = call
            .server
            .source()
            .list(&ListRequest {
                resource: &served.storage,
                namespace: Some(call.namespace()),
                filter: &|_: &Object| true,
                at: None,
                after: None,
                limit: 0,
            })
            .await
            .map_err(error::of_source)?
            .objects;
        let budgets = stored.iter().map(|budget| {
            let value = object::parse(served, &budget.json)?;
            Ok((budget, value))
        });
        let budgets: Vec<(&Arc<Object>, Value)> = budgets.collect::<Result<_, ApiError>>()?;
        let values: Vec<&Value> = budgets.iter().map(|(_, value)| value).collect();
        let Some((index, spent)) = judge(pod, &values, &call.now())? else {
            return Ok(());
        };
        if dry_run {
            return Ok(());
        }
        let budget = budgets[index].0;
        let write = Write {
            key: budget.key.clone(),
            expect: Expect::Revision(budget.revision),
            change: Change::Put(object::draft(served, &update::to_storage(served, &spent))),
        };
        match call.server.write(write).await {
            Ok(_) => return Ok(()),
            Err(Error::Conflict { .. } | Error::NotFound(_)) if attempt < ATTEMPTS => {}
            Err(error) => return Err(error::of_object(served, &budget.key.name, error)),
        }
    }
    Err(ApiError::internal("the disruption budget changes too fast"))
}

/// The budget that an eviction of a pod takes from, and what it is after that; `None` if it takes from none.
fn judge(pod: &Value, budgets: &[&Value], now: &str) -> Result<Option<(usize, Value)>, ApiError> {
    let phase = pod["status"]["phase"].as_str().unwrap_or_default();
    let is_going = !pod["metadata"]["deletionTimestamp"].is_null();
    if is_going || matches!(phase, "Pending" | "Succeeded" | "Failed") {
        return Ok(None);
    }
    let labels = &pod["metadata"]["labels"];
    let covers = |budget: &Value| {
        let selector = &budget["spec"]["selector"];
        // One that cannot be read covers nothing.
        !selector.is_null()
            && LabelSelector::from_value(selector).is_ok_and(|found| found.matches_labels(labels))
    };
    let mut found = budgets.iter().enumerate().filter(|(_, budget)| covers(budget));
    let (Some((index, budget)), None) = (found.next(), found.next()) else {
        return if budgets.iter().any(|budget| covers(budget)) {
            Err(ApiError::internal(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            ))
        } else {
            Ok(None)
        };
    };
    let number = |field: &str| budget["status"][field].as_i64().unwrap_or(0);
    if !is_ready(pod) {
        let healthy = number("currentHealthy") >= number("desiredHealthy") && number("desiredHealthy") > 0;
        if budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow" || healthy {
            return Ok(None);
        }
    }
    let budget_name = budget["metadata"]["name"].as_str().unwrap_or_default();
    let generation = budget["metadata"]["generation"].as_i64().unwrap_or(0);
    if number("observedGeneration") < generation {
        let why = format!("The disruption budget {budget_name} is still being processed by the server.");
        return Err(too_many(why));
    }
    let forbidden = |why: &str| {
        let pod_name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let message = format!("poddisruptionbudgets.policy \"{budget_name}\" is forbidden: {why}");
        Err(ApiError::new(Reason::Forbidden, message).about("policy", "poddisruptionbudgets", pod_name))
    };
    let waiting = budget["status"]["disruptedPods"].as_object();
    match number("disruptionsAllowed") {
        ..0 => return forbidden("pdb disruptions allowed is negative"),
        _ if waiting.is_some_and(|waiting| waiting.len() > WAITING_LIMIT) => {
            return forbidden(
                "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
            );
        }
        0 => {
            return Err(too_many(format!(
                "The disruption budget {budget_name} needs {} healthy pods and has {} currently",
                number("desiredHealthy"),
                number("currentHealthy")
            )));
        }
        1.. => {}
    }
    let mut spent = (*budget).clone();
    spent["status"]["disruptionsAllowed"] = json!(number("disruptionsAllowed") - 1);
    if let Some(pod_name) = pod["metadata"]["name"].as_str() {
        spent["status"]["disruptedPods"][pod_name] = json!(now);
    }
    Ok(Some((index, spent)))
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions
        .into_iter()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

fn too_many(why: String) -> ApiError {
    let text = "Cannot evict pod as it would violate the pod's disruption budget.";
    ApiError {
        causes: vec![Cause {
            reason: "DisruptionBudget".to_owned(),
            message: why,
            field: String::new(),
        }],
        retry_after_seconds: RETRY_AFTER,
        ..ApiError::new(Reason::TooManyRequests, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(phase: &str, ready: &str) -> Value {
        json!({
            "metadata": {"name": "p", "labels": {"a": "b"}},
            "status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]},
        })
    }

    fn budget(policy: &str, allowed: i64, current: i64, desired: i64, observed: i64) -> Value {
        json!({
            "metadata": {"name": "w", "generation": 2},
            "spec": {"selector": {"matchLabels": {"a": "b"}}, "unhealthyPodEvictionPolicy": policy},
            "status": {"disruptionsAllowed": allowed, "currentHealthy": current, "desiredHealthy": desired,
                "observedGeneration": observed},
        })
    }

    /// What a budget comes to: `free`, `left N`, or the status and the cause.
    fn outcome(pod: &Value, budgets: &[&Value]) -> String {
        match judge(pod, budgets, "now") {
            Ok(None) => "free".to_owned(),
            Ok(Some((_, spent))) => {
                assert_eq!(spent["status"]["disruptedPods"], json!({"p": "now"}));
                format!("left {}", spent["status"]["disruptionsAllowed"])
            }
            Err(error) => {
                let cause = error.causes.first().map(|cause| cause.message.as_str());
                format!("{} {}", error.code, cause.unwrap_or(&error.message))
            }
        }
    }

    #[test]
    fn a_budget_is_kept_to() {
        let ready = pod("Running", "True");
        let unready = pod("Running", "False");
        for (pod, policy, numbers, says) in [
            (&ready, "", [1, 3, 2, 2], "left 0"),
            (&ready, "AlwaysAllow", [2, 4, 2, 2], "left 1"),
            (
                &ready,
                "",
                [0, 2, 2, 2],
                "429 The disruption budget w needs 2 healthy pods and has 2 currently",
            ),
            (
                &ready,
                "",
                [1, 3, 2, 1],
                "429 The disruption budget w is still being processed by the server.",
            ),
            (&ready, "", [-1, 3, 2, 2], "403 "),
            (&unready, "", [0, 2, 2, 2], "free"),
            (
                &unready,
                "IfHealthyBudget",
                [0, 1, 2, 2],
                "429 The disruption budget w needs 2 healthy pods and has 1",
            ),
            (&unready, "AlwaysAllow", [0, 1, 2, 2], "free"),
            (&unready, "", [0, 0, 0, 2], "429 "),
            (&pod("Pending", "False"), "", [0, 2, 2, 1], "free"),
            (&pod("Succeeded", "False"), "", [0, 2, 2, 2], "free"),
        ] {
            let [allowed, current, desired, observed] = numbers;
            let found = outcome(pod, &[&budget(policy, allowed, current, desired, observed)]);
            assert!(found.starts_with(says), "{policy} {numbers:?}: {found}");
        }
        let one = budget("", 1, 3, 2, 2);
        assert!(outcome(&ready, &[&one, &one]).starts_with("500 This pod has more than one"));
        let mut of_others = one.clone();
        of_others["spec"]["selector"] = json!({"matchLabels": {"a": "c"}});
        let mut of_none = one.clone();
        of_none["spec"]["selector"] = Value::Null;
        assert_eq!(outcome(&ready, &[&of_others, &of_none]), "free");
        assert_eq!(outcome(&ready, &[&of_others, &one]), "left 0");
        let mut of_all = one.clone();
        of_all["spec"]["selector"] = json!({});
        assert_eq!(outcome(&ready, &[&of_all]), "left 0");
        let mut going = ready.clone();
        going["metadata"]["deletionTimestamp"] = json!("now");
        assert_eq!(outcome(&going, &[&budget("", 0, 2, 2, 2)]), "free");
        let mut crowded = one;
        let names = (0..=WAITING_LIMIT).map(|index| (index.to_string(), json!("now")));
        crowded["status"]["disruptedPods"] = names.collect();
        assert!(outcome(&ready, &[&crowded]).starts_with("403 "));
    }
}

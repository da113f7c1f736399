//! Bodies of the fuzz targets: what reads foreign bytes must never panic.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::capacity::Requirements;
use crate::predict;
use crate::{
    Cluster, ClusterKey, Config, Decision, Fleet, Inventory, Snapshot, Subscription, decide, place,
    status_patch,
};

/// A text as a predictor's answer, and as a question about a cluster whose nodes and pods it is too.
pub fn fuzz_predict(bytes: &[u8]) {
    if let Ok(room) = predict::answer(200, bytes) {
        let said = predict::answer_body(room).to_string();
        assert_eq!(predict::answer(200, said.as_bytes()), Ok(room));
    }
    let value = serde_json::from_slice::<Value>(bytes).unwrap_or_default();
    if let Ok(requirements) = Requirements::from_value(&value) {
        requirements.room([&value], [&value]);
    }
}

/// A JSON array of a Subscription, a FeedInventory, a configuration and ManagedClusters: reads and decides.
pub fn fuzz_place(bytes: &[u8]) {
    let Ok(Value::Array(parts)) = serde_json::from_slice::<Value>(bytes) else {
        return;
    };
    let part = |index: usize| parts.get(index).unwrap_or(&Value::Null);
    let Ok(subscription) = Subscription::from_value(part(0)) else {
        return;
    };
    let inventory = Inventory::from_value(part(1));
    let config = Config::parse(part(2)).unwrap_or_default();
    let clusters: Fleet = parts.iter().skip(3).filter_map(Cluster::from_value).collect();
    let Some(profile) = config
        .profile(&subscription.scheduler_name)
        .or_else(|| config.profile("default"))
    else {
        return;
    };
    let snapshot = Snapshot {
        inventory: Some(&inventory),
        percentage_to_score: config.percentage_to_score,
        start: bytes.len(),
        now: jiff::Timestamp::from_second(bytes.len() as i64).ok(),
        ..Snapshot::of(&subscription, &clusters, profile)
    };
    let room: Vec<Option<u32>> = inventory.feeds.iter().map(|wanted| wanted.desired).collect();
    let answers = if let Decision::Predict(asked) = decide(&snapshot).decision {
        let answer = |key: &&ClusterKey| (ClusterKey::clone(key), Ok(room.clone()));
        asked.iter().map(answer).collect()
    } else {
        BTreeMap::new()
    };
    let snapshot = Snapshot {
        predictions: &answers,
        ..snapshot
    };
    let placement = place(&snapshot);
    assert_eq!(
        placement.decision,
        decide(&snapshot).decision,
        "why it is so changes nothing"
    );
    assert!(
        !matches!(placement.decision, Decision::Predict(_)),
        "all that was asked is answered"
    );
    if let Decision::Bind { binding, .. } = placement.decision {
        assert!(
            status_patch(&Value::Null, &binding).is_some(),
            "an empty status lacks a binding"
        );
    }
}

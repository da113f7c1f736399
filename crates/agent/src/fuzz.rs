//! Bodies of fuzz tests: each takes any bytes and must not panic.

use serde_json::{Value, json};

use crate::deploy::plan;
use crate::{registration, report};

/// A Description from a parent that lies: whatever it asks for, planning and reporting hold.
pub fn fuzz_description(bytes: &[u8]) {
    let Ok(description) = serde_json::from_slice::<Value>(bytes) else {
        return;
    };
    let (wanted, _) = plan::desired(&description);
    for desired in &wanted {
        let mut live = desired.object.clone();
        if let Some(map) = live.as_object_mut() {
            map.insert("spec".to_owned(), description["spec"].clone());
        }
        plan::step(desired, Some(&live), |_| false);
        assert!(
            !plan::drifted(&desired.object, &desired.object),
            "an object does not differ from itself"
        );
    }
    plan::leftovers(&description, plan::recorded(&description), &wanted);
}

/// A parent's answer to a request.
pub fn fuzz_answer(bytes: &[u8]) {
    if let Ok(request) = serde_json::from_slice::<Value>(bytes) {
        registration::answer(&request);
    }
}

/// Pods of a child's control plane, each argument on a line.
pub fn fuzz_arguments(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let words: Vec<&str> = text.lines().collect();
    for component in ["kube-apiserver", "kube-controller-manager", "kube-proxy"] {
        let pod = json!({"metadata": {"labels": {"component": component}}, "spec": {"containers": [{"args": words}]}});
        report::find_cidrs([&pod]);
    }
}

//! Bodies of fuzz tests: each takes any bytes and must not panic.

use serde_json::{Value, json};

use crate::{registration, report};

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

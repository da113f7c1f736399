//! Bodies of fuzz tests: what children write about themselves must never panic.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::lifecycle::init::Init;
use crate::{lifecycle, registration};

/// A JSON array of a ClusterRegistrationRequest, a ManagedCluster, its namespace, and one object of each kind that
/// belongs to it: plans with them.
pub fn fuzz_plans(bytes: &[u8]) {
    let Ok(Value::Array(parts)) = serde_json::from_slice::<Value>(bytes) else {
        return;
    };
    let part = |index: usize| parts.get(index).cloned();
    let view = registration::plan::View {
        request: part(0).unwrap_or_default(),
        waits_for_init: true,
        now: Timestamp::UNIX_EPOCH,
        namespace: part(2),
        cluster: part(1),
        namesake: part(1),
        service_account: part(3),
        token: part(3),
        authority: part(3).map(|it| it.to_string()),
        cluster_role: part(3),
        cluster_role_binding: part(3),
        role: part(3),
        role_binding: part(3),
    };
    let fresh = registration::plan::View {
        cluster: None,
        ..view.clone()
    };
    let cluster = part(1).unwrap_or_default();
    let others = [Arc::new(part(3).unwrap_or_default())];
    let inits = [
        Init::Off,
        Init::On {
            bases: &others,
            descriptions: &others,
        },
    ];
    let look = |init| {
        lifecycle::plan::plan(&lifecycle::plan::View {
            cluster: &cluster,
            now: Timestamp::UNIX_EPOCH,
            report_age: std::time::Duration::ZERO,
            init,
        })
    };
    let plans = [
        registration::plan::plan(&view),
        registration::plan::plan(&fresh),
        registration::plan::keep_up(&view),
        lifecycle::leave::plan(&lifecycle::leave::View {
            cluster: cluster.clone(),
            alone: true,
            namespace: part(2),
            bases: Vec::new(),
            descriptions: Vec::new(),
            request: part(0),
            role: part(3),
            binding: part(3),
            credential: part(3),
            granted: Vec::new(),
            left: part(3)
                .map(|it| (api::kubernetes::SECRETS, it))
                .into_iter()
                .collect(),
        }),
    ];
    drop((plans, inits.map(look)));
}

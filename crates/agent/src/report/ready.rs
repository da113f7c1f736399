//! The condition that the agent keeps.

use api::reasons;
use jiff::Timestamp;
use machinery::conditions;
use serde_json::{Value, json};

use super::status::Health;

/// The Ready condition of a cluster whose API server answers so.
pub fn ready(health: Health, now: Timestamp) -> Value {
    let Health {
        healthz,
        livez,
        readyz,
    } = health;
    let good = (livez && readyz) || healthz;
    json!({
        "type": reasons::READY,
        "status": if good { "True" } else { "False" },
        "reason": if good { reasons::MANAGED_CLUSTER_READY } else { reasons::MANAGED_CLUSTER_NOT_READY },
        "message": if good {
            "the cluster's API server is well".to_owned()
        } else {
            format!("the cluster's API server is not well: healthz {healthz}, livez {livez}, readyz {readyz}")
        },
        "lastTransitionTime": conditions::time(now),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u32) -> Timestamp {
        format!("2026-01-01T00:00:{second:02}Z").parse().unwrap()
    }

    fn health(healthz: bool, livez: bool, readyz: bool) -> Health {
        Health {
            healthz,
            livez,
            readyz,
        }
    }

    #[test]
    fn ready_when_live_and_ready_or_healthy() {
        for (healthz, livez, readyz, expected) in [
            (false, false, false, "False"),
            (true, false, false, "True"),
            (false, true, true, "True"),
            (false, true, false, "False"),
            (false, false, true, "False"),
        ] {
            assert_eq!(ready(health(healthz, livez, readyz), at(0))["status"], expected);
        }
    }
}

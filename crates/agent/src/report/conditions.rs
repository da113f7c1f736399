//! Conditions: made, and merged with those of others.

use api::reasons;
use jiff::Timestamp;
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
        "lastTransitionTime": time(now),
    })
}

/// Puts a condition among others. One that says the same stays as it is; its time changes only with its status.
pub fn merge(conditions: &[Value], new: Value) -> Vec<Value> {
    let mut merged = conditions.to_vec();
    match merged
        .iter_mut()
        .find(|condition| condition["type"] == new["type"])
    {
        None => merged.push(new),
        Some(old) => {
            let same = ["status", "reason", "message"]
                .into_iter()
                .all(|field| old[field] == new[field]);
            if !same {
                let since = (old["status"] == new["status"]).then(|| old["lastTransitionTime"].clone());
                *old = new;
                if let Some(since) = since {
                    old["lastTransitionTime"] = since;
                }
            }
        }
    }
    merged
}

/// `metav1.Time`.
pub(crate) fn time(time: Timestamp) -> String {
    format!("{time:.0}")
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

    /// O12, without the original's fault of a new time at every heartbeat.
    #[test]
    fn o12_the_time_changes_only_with_the_status() {
        let other = json!({"type": "ClusterInit", "status": "True"});
        let first = merge(
            std::slice::from_ref(&other),
            ready(health(true, true, true), at(1)),
        );
        assert_eq!(first.len(), 2);
        let again = merge(&first, ready(health(true, true, true), at(2)));
        assert_eq!(again, first, "nothing changed");
        let worse = merge(&again, ready(health(false, false, false), at(3)));
        assert_eq!(worse[1]["status"], "False");
        assert_eq!(worse[1]["lastTransitionTime"], "2026-01-01T00:00:03Z");
        let words = merge(&worse, ready(health(false, true, false), at(4)));
        assert_ne!(words[1]["message"], worse[1]["message"]);
        assert_eq!(words[1]["lastTransitionTime"], "2026-01-01T00:00:03Z");
        assert_eq!(words[0], other);
    }
}

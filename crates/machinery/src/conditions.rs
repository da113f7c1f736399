//! Conditions as `metav1.Condition` has them: several writers share one list, each minds its own types.

use jiff::Timestamp;
use serde_json::Value;

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

/// `metav1.Time`: whole seconds.
pub fn time(time: Timestamp) -> String {
    format!("{time:.0}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// O12, without the original's fault of a new time at every heartbeat.
    #[test]
    fn o12_the_time_changes_only_with_the_status() {
        let ready = |status: &str, message: &str, since: &str| json!({"type": "Ready", "status": status, "reason": "R", "message": message, "lastTransitionTime": since});
        let other = json!({"type": "Other", "status": "True"});
        let mut conditions = vec![other.clone()];
        for (new, expected) in [
            (ready("True", "a", "1"), ready("True", "a", "1")),
            (ready("True", "a", "2"), ready("True", "a", "1")),
            (ready("True", "b", "3"), ready("True", "b", "1")),
            (ready("False", "b", "4"), ready("False", "b", "4")),
        ] {
            conditions = merge(&conditions, new);
            assert_eq!(conditions, [other.clone(), expected]);
        }
    }
}

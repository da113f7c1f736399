//! What a condition of a Subscription says: how many clusters are not as they should be, why, and which, for example.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use jiff::Timestamp;
use machinery::conditions;
use serde_json::{Value, json};

/// How many causes are told; the others are counted.
const CAUSES: usize = 5;
/// How many clusters are named for each.
const EXAMPLES: usize = 3;
/// The longest text of a cause, in characters.
const LONGEST: usize = 200;

/// Clusters by what is amiss there, in the order of the binding.
#[derive(Debug, Default)]
pub(super) struct Causes(BTreeMap<String, Cause>);

#[derive(Debug, Default)]
struct Cause {
    count: usize,
    first: Vec<String>,
}

impl Causes {
    /// Something is amiss in a cluster.
    pub(super) fn add(&mut self, why: &str, cluster: &str) {
        let why: String = why
            .chars()
            .map(|it| if it.is_control() { ' ' } else { it })
            .take(LONGEST)
            .collect();
        let cause = self.0.entry(why).or_default();
        cause.count += 1;
        if cause.first.len() < EXAMPLES {
            cause.first.push(cluster.to_owned());
        }
    }

    /// The condition: `True` if nothing is amiss in any of so many clusters, and there are any.
    pub(super) fn condition(
        &self,
        kind: &str,
        (otherwise, all_is_well): (&str, &str),
        total: usize,
        now: Timestamp,
    ) -> Value {
        let (status, reason, message) = if total == 0 {
            ("False", "NoClusters", "it is bound to no cluster".to_owned())
        } else if self.0.is_empty() {
            (
                "True",
                kind,
                format!("{total} of {total} cluster(s) {all_is_well}"),
            )
        } else {
            ("False", otherwise, self.to_text(total))
        };
        json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": conditions::time(now),
        })
    }

    fn to_text(&self, total: usize) -> String {
        let mut causes: Vec<(&String, &Cause)> = self.0.iter().collect();
        causes.sort_by_key(|(why, cause)| (Reverse(cause.count), *why));
        let told = causes.iter().take(CAUSES).map(|(why, cause)| {
            let more = if cause.count > cause.first.len() {
                ", …"
            } else {
                ""
            };
            let first = cause.first.join(", ");
            format!("{} of {total} cluster(s): {why} ({first}{more})", cause.count)
        });
        let mut text = told.collect::<Vec<_>>().join("; ");
        if causes.len() > CAUSES {
            text.push_str(&format!("; and {} more cause(s)", causes.len() - CAUSES));
        }
        text
    }
}

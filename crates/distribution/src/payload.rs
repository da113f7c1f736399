//! How long a payload is kept: as long as a Description refers to it, and a while longer.

use std::sync::Arc;
use std::time::Duration;

use api::payloads;
use jiff::Timestamp;
use machinery::meta;
use serde_json::Value;

use crate::action::{Action, Next, Plan};

/// A payload is there before what refers to it, and may be wanted again.
pub const GRACE: Duration = Duration::from_mins(10);

/// What one plan may look at.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// The stored pieces of one payload.
    pub pieces: &'a [Arc<Value>],
    /// Whether a Description refers to it.
    pub is_used: bool,
    /// The time.
    pub now: Timestamp,
}

/// What to do about a payload.
pub fn plan(view: &View<'_>) -> Plan {
    let mut plan = Plan::default();
    if view.is_used {
        return plan;
    }
    for piece in view.pieces.iter().filter(|it| !meta::is_deleting(it)) {
        let made = meta::creation_timestamp(piece).parse::<Timestamp>();
        let age = made
            .ok()
            .and_then(|made| Duration::try_from(view.now.duration_since(made)).ok());
        let age = age.unwrap_or(Duration::ZERO);
        if age >= GRACE {
            plan.push(Action::delete(&payloads::PAYLOADS, piece));
        } else {
            plan.next = Next::Again(GRACE - age);
        }
    }
    plan
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn goes_a_while_after_its_last_user() {
        let piece = |made: &str| {
            Arc::new(json!({"metadata": {"name": "p", "namespace": "n", "creationTimestamp": made}}))
        };
        let now: Timestamp = "2026-01-01T01:00:00Z".parse().unwrap();
        for (case, made, is_used, deletes, next) in [
            ("used", "2026-01-01T00:00:00Z", true, 0, Next::Done),
            ("old", "2026-01-01T00:00:00Z", false, 1, Next::Done),
            (
                "new",
                "2026-01-01T00:59:00Z",
                false,
                0,
                Next::Again(Duration::from_mins(9)),
            ),
            (
                "of another clock",
                "2026-01-01T02:00:00Z",
                false,
                0,
                Next::Again(GRACE),
            ),
            ("without a time", "", false, 0, Next::Again(GRACE)),
        ] {
            let plan = plan(&View {
                pieces: &[piece(made)],
                is_used,
                now,
            });
            assert_eq!((plan.actions.len(), &plan.next), (deletes, &next), "{case}");
        }
    }
}

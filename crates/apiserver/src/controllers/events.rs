//! Events are kept for an hour after they last happened.

use std::sync::Arc;
use std::time::Duration;

use clock::Env;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use source::{Change, Error, Expect, ListRequest, ObjectSource, Resource, Write};
use tokio_util::sync::CancellationToken;

const KEPT: SignedDuration = SignedDuration::from_hours(1);
const EVERY: Duration = Duration::from_secs(120);

/// Removes events that are over, every two minutes.
pub(super) async fn sweep(source: Arc<dyn ObjectSource>, env: Env, shutdown: CancellationToken) {
    loop {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(EVERY) => {}
        }
        match sweep_once(source.as_ref(), env.now()).await {
            Ok(()) => {}
            Err(Error::Closed(_)) => return,
            Err(error) => tracing::warn!(%error, "old events could not be removed"),
        }
    }
}

async fn sweep_once(source: &dyn ObjectSource, now: Timestamp) -> Result<(), Error> {
    let resource = Resource::new("", "events");
    let request = ListRequest {
        resource: &resource,
        namespace: None,
        filter: &|_| true,
        at: None,
        after: None,
        limit: 0,
    };
    for object in source.list(&request).await?.objects {
        let event: Value = serde_json::from_slice(&object.json).unwrap_or(Value::Null);
        if !is_over(&event, now) {
            continue;
        }
        let write = Write {
            key: object.key.clone(),
            expect: Expect::Revision(object.revision),
            change: Change::Delete,
        };
        match source.write(write).await {
            Ok(_) | Err(Error::NotFound(_) | Error::Conflict { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Whether the last time that an event happened is long ago. One without any time stays.
fn is_over(event: &Value, now: Timestamp) -> bool {
    [
        &event["series"]["lastObservedTime"],
        &event["lastTimestamp"],
        &event["deprecatedLastTimestamp"],
        &event["eventTime"],
        &event["metadata"]["creationTimestamp"],
    ]
    .into_iter()
    .filter_map(|time| time.as_str()?.parse::<Timestamp>().ok())
    .max()
    .is_some_and(|last| now.duration_since(last) > KEPT)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::authz::fake::FakeSource;

    #[tokio::test]
    async fn removes_what_is_over() {
        let source = FakeSource::default();
        let event = |name: &str, created: &str, last: Value| {
            let metadata = json!({"namespace": "a", "name": name, "creationTimestamp": created});
            json!({"metadata": metadata, "lastTimestamp": last})
        };
        source.put("events", &event("old", "2026-01-01T00:00:00Z", Value::Null));
        source.put(
            "events",
            &event("again", "2026-01-01T00:00:00Z", json!("2026-01-01T01:30:00Z")),
        );
        source.put("events", &event("new", "2026-01-01T01:10:00Z", Value::Null));
        source.put(
            "events",
            &json!({"metadata": {"namespace": "a", "name": "timeless"}}),
        );
        sweep_once(&source, "2026-01-01T02:00:00Z".parse().unwrap())
            .await
            .unwrap();
        let resource = Resource::new("", "events");
        let request = ListRequest {
            resource: &resource,
            namespace: None,
            filter: &|_| true,
            at: None,
            after: None,
            limit: 0,
        };
        let left: Vec<String> = source
            .list(&request)
            .await
            .unwrap()
            .objects
            .iter()
            .map(|object| object.key.name.to_string())
            .collect();
        assert_eq!(left, ["again", "new", "timeless"]);
    }
}

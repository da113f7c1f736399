//! Gets from the hub what Descriptions only refer to.

use std::sync::Arc;

use api::entry::{self, Reference};
use api::proxies;
use deployer::Contents;
use deployer::contents::{LARGEST, Source};
use futures::future::BoxFuture;
use http::{Request, StatusCode};
use kubeio::{Client, ObjectKey};
use machinery::ApiError;
use runtime::Chain;
use sealing::KeyRing;
use serde_json::Value;

/// What a cluster's Descriptions refer to, and what is sealed in them.
pub(crate) fn contents(parent: &Client, cluster_id: &str, ring: Arc<KeyRing>) -> Contents {
    let hub = Hub {
        parent: parent.clone(),
        cluster_id: cluster_id.to_owned(),
    };
    Contents::new(Arc::new(hub), ring)
}

/// The hub of a parent, as one cluster asks it.
struct Hub {
    parent: Client,
    cluster_id: String,
}

impl Source for Hub {
    fn fetch<'a>(
        &'a self,
        description: &'a ObjectKey,
        reference: &'a Reference,
    ) -> BoxFuture<'a, Result<Vec<u8>, String>> {
        Box::pin(async move {
            let path = format!(
                "{}/sockets/{}/payloads/{}?description={}",
                root(),
                self.cluster_id,
                reference.digest,
                description.name
            );
            let request = Request::get(path)
                .body(Vec::new())
                .map_err(|error| error.to_string())?;
            let limit = usize::try_from(LARGEST).unwrap_or(usize::MAX);
            let response = self
                .parent
                .request_at_most(request, limit)
                .await
                .map_err(|error| Chain(&error).to_string())?;
            if response.status() == StatusCode::OK {
                return Ok(response.into_body().into());
            }
            let error = ApiError::from_body(response.status().as_u16(), response.body());
            Err(format!("the hub answers {}: {}", error.code, error.message))
        })
    }
}

/// What this agent can be given because its parent's hub serves it; `None` if the parent does not say now.
pub(crate) async fn features(parent: &Client) -> Option<Vec<&'static str>> {
    match parent.get_path(&root()).await {
        Ok(resources) => Some(served(&resources)),
        // There is no hub.
        Err(error) if error.is_not_found() => Some(Vec::new()),
        Err(_) => None,
    }
}

fn served(resources: &Value) -> Vec<&'static str> {
    let mut names = resources["resources"].as_array().into_iter().flatten();
    let serves = names.any(|it| it["name"] == proxies::PAYLOADS);
    serves.then_some(entry::PAYLOAD_REFERENCES).into_iter().collect()
}

fn root() -> String {
    format!("/apis/{}/{}", proxies::GROUP, proxies::VERSION)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn says_what_the_hub_serves() {
        for (resources, expected) in [
            (json!([{"name": "sockets"}, {"name": "sockets/payloads"}]), 1),
            (json!([{"name": "sockets"}]), 0),
            (json!(null), 0),
        ] {
            assert_eq!(
                served(&json!({"resources": resources})).len(),
                expected,
                "{resources}"
            );
        }
    }
}

//! Deletes bootstrap tokens once they have expired.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use machinery::{ApiError, meta};
use serde_json::Value;
use smol_str::SmolStr;
use source::{Key, ObjectSource, Resource};

use super::feed::Notice;
use super::local::{Local, only};
use super::work::{Controller, Next};
use crate::authn::bootstrap::{NAMESPACE, SECRET_TYPE, expiration};
use crate::error;
use crate::server::ApiServer;

/// See the module.
pub(super) struct BootstrapTokens {
    source: Arc<dyn ObjectSource>,
    api: Local,
    env: clock::Env,
}

impl BootstrapTokens {
    pub(super) fn new(server: &Arc<ApiServer>, api: Local) -> Self {
        Self {
            source: server.source().clone(),
            api,
            env: server.env().clone(),
        }
    }

    async fn tend(&self, name: &SmolStr) -> Result<Next, ApiError> {
        let key = Key::new(&Resource::new("", "secrets"), NAMESPACE, name);
        let Some(found) = self.source.get(&key).await.map_err(error::of_source)? else {
            return Ok(Next::Done);
        };
        let secret: Value = serde_json::from_slice(&found.json).unwrap_or(Value::Null);
        if secret["type"] != SECRET_TYPE || meta::is_deleting(&secret) {
            return Ok(Next::Done);
        }
        // A time that nobody can read is left to people: such a token is not accepted anyway.
        let Some(end) = expiration(&secret) else {
            return Ok(Next::Done);
        };
        let left = end.duration_since(self.env.now());
        if left.is_positive() {
            let left = Duration::try_from(left).unwrap_or(Duration::from_secs(1));
            // Wall clocks jump: look now and then rather than once at the end.
            return Ok(Next::After(
                left.min(Duration::from_secs(600)).max(Duration::from_millis(100)),
            ));
        }
        let place = format!("/api/v1/namespaces/{NAMESPACE}/secrets/{name}");
        match self.api.delete(&place, &only(meta::uid(&secret), None)).await {
            Err(error) if error.code == 404 => Ok(Next::Done),
            done => done.map(|_| Next::Done),
        }
    }
}

impl Controller for BootstrapTokens {
    type Key = SmolStr;
    const NAME: &'static str = "bootstrap-tokens";

    fn observe(&self, notice: &Notice, wanted: &mut Vec<SmolStr>) {
        if let Notice::Put(object) = notice
            && object.key.namespace == NAMESPACE
            && object.key.name.starts_with("bootstrap-token-")
        {
            wanted.push(object.key.name.clone());
        }
    }

    fn look<'a>(
        &'a self,
        key: &'a SmolStr,
        _: &'a mut Vec<SmolStr>,
    ) -> BoxFuture<'a, Result<Next, ApiError>> {
        Box::pin(self.tend(key))
    }
}

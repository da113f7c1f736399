//! What every namespace has: the service account `default` and the ConfigMap `kube-root-ca.crt`.

use std::sync::Arc;

use futures::future::BoxFuture;
use machinery::ApiError;
use serde_json::{Value, json};
use smol_str::SmolStr;
use source::{Key, ObjectSource, Resource};

use super::feed::Notice;
use super::local::Local;
use super::work::{Controller, Next};
use crate::error;
use crate::server::ApiServer;

const ACCOUNT: &str = "default";
const AUTHORITY: &str = "kube-root-ca.crt";

/// See the module.
pub(super) struct Accounts {
    source: Arc<dyn ObjectSource>,
    api: Local,
    authority_pem: Option<String>,
}

impl Accounts {
    pub(super) fn new(server: &Arc<ApiServer>, api: Local, authority_pem: Option<String>) -> Self {
        Self {
            source: server.source().clone(),
            api,
            authority_pem,
        }
    }

    async fn tend(&self, namespace: &SmolStr) -> Result<Next, ApiError> {
        let get = async |plural: &str, namespace: &str, name: &str| {
            let key = Key::new(&Resource::new("", plural), namespace, name);
            self.source.get(&key).await.map_err(error::of_source)
        };
        let found = get("namespaces", "", namespace).await?;
        if found.is_none_or(|found| found.head.deleting) {
            return Ok(Next::Done);
        }
        if get("serviceaccounts", namespace, ACCOUNT).await?.is_none() {
            let account = json!({
                "apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": {"name": ACCOUNT, "namespace": namespace.as_str()},
            });
            self.create(namespace, "serviceaccounts", &account).await?;
        }
        let Some(pem) = &self.authority_pem else {
            return Ok(Next::Done);
        };
        match get("configmaps", namespace, AUTHORITY).await? {
            None => {
                let map = json!({
                    "apiVersion": "v1", "kind": "ConfigMap", "data": {"ca.crt": pem},
                    "metadata": {
                        "name": AUTHORITY, "namespace": namespace.as_str(),
                        "annotations": {
                            "kubernetes.io/description": "Contains a CA bundle that can be used to verify the \
                                kube-apiserver when using internal endpoints such as the internal service IP or \
                                kubernetes.default.svc. No other usage is guaranteed across distributions of \
                                Kubernetes clusters.",
                        },
                    },
                });
                self.create(namespace, "configmaps", &map).await?;
            }
            Some(found) => {
                let value: Value = serde_json::from_slice(&found.json).unwrap_or(Value::Null);
                if value["data"]["ca.crt"] != pem.as_str() {
                    let place = format!("/api/v1/namespaces/{namespace}/configmaps/{AUTHORITY}");
                    self.api.merge(&place, &json!({"data": {"ca.crt": pem}})).await?;
                }
            }
        }
        Ok(Next::Done)
    }

    async fn create(&self, namespace: &str, plural: &str, object: &Value) -> Result<(), ApiError> {
        match self
            .api
            .create(&format!("/api/v1/namespaces/{namespace}/{plural}"), object)
            .await
        {
            Err(error) if error.code == 409 => Ok(()),
            // The namespace went away or is about to.
            Err(error) if matches!(error.code, 403 | 404) => Ok(()),
            done => done.map(drop),
        }
    }
}

impl Controller for Accounts {
    type Key = SmolStr;
    const NAME: &'static str = "accounts";

    fn observe(&self, notice: &Notice, wanted: &mut Vec<SmolStr>) {
        match notice {
            Notice::Put(object) => match object.key.resource.as_str() {
                "namespaces" if !object.head.deleting => wanted.push(object.key.name.clone()),
                "configmaps" if object.key.name == AUTHORITY => wanted.push(object.key.namespace.clone()),
                _ => {}
            },
            Notice::Gone(object) => match (object.key.resource.as_str(), object.key.name.as_str()) {
                ("serviceaccounts", ACCOUNT) | ("configmaps", AUTHORITY) => {
                    wanted.push(object.key.namespace.clone());
                }
                _ => {}
            },
            Notice::Reset(_) | Notice::Synced => {}
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

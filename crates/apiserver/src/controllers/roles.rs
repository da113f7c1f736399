//! Aggregated ClusterRoles: their rules are those of all ClusterRoles that their selectors choose, in the order of
//! their names.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use machinery::ApiError;
use machinery::selector::LabelSelector;
use serde_json::{Value, json};
use smol_str::SmolStr;
use source::{Key, ListRequest, Object, ObjectSource, Resource};

use super::feed::Notice;
use super::local::Local;
use super::work::{Controller, Next};
use crate::error;
use crate::server::ApiServer;

/// See the module.
pub(super) struct Roles {
    source: Arc<dyn ObjectSource>,
    api: Local,
    aggregated: Mutex<BTreeSet<SmolStr>>,
}

fn resource() -> Resource {
    Resource::new("rbac.authorization.k8s.io", "clusterroles")
}

impl Roles {
    pub(super) fn new(server: &Arc<ApiServer>, api: Local) -> Self {
        Self {
            source: server.source().clone(),
            api,
            aggregated: Mutex::default(),
        }
    }

    async fn tend(&self, name: &SmolStr) -> Result<Next, ApiError> {
        let key = Key::new(&resource(), "", name);
        let Some(object) = self.source.get(&key).await.map_err(error::of_source)? else {
            return Ok(Next::Done);
        };
        let role: Value = serde_json::from_slice(&object.json).unwrap_or(Value::Null);
        let Some(selectors) = selectors(&role) else {
            return Ok(Next::Done);
        };
        let chosen = |object: &Object| {
            object.key.name != *name
                && selectors
                    .iter()
                    .any(|selector| selector.matches(|label| object.head.label(label)))
        };
        let resource = resource();
        let request = ListRequest {
            resource: &resource,
            namespace: None,
            filter: &chosen,
            at: None,
            after: None,
            limit: 0,
        };
        let page = self.source.list(&request).await.map_err(error::of_source)?;
        let parts: Vec<Value> = page
            .objects
            .iter()
            .map(|object| serde_json::from_slice(&object.json).unwrap_or(Value::Null))
            .collect();
        let rules = union(&parts);
        if role["rules"].as_array().map(Vec::as_slice).unwrap_or_default() != rules.as_slice() {
            let place = format!("/apis/rbac.authorization.k8s.io/v1/clusterroles/{name}");
            self.api.merge(&place, &json!({ "rules": rules })).await?;
        }
        Ok(Next::Done)
    }
}

/// The selectors of an aggregated role, `None` for any other. One that cannot be read chooses nothing.
fn selectors(role: &Value) -> Option<Vec<LabelSelector>> {
    let all = role["aggregationRule"]["clusterRoleSelectors"].as_array()?;
    Some(
        all.iter()
            .map(|selector| LabelSelector::from_value(selector).unwrap_or_else(|_| LabelSelector::nothing()))
            .collect(),
    )
}

/// All rules of some roles, each once.
fn union(roles: &[Value]) -> Vec<Value> {
    let mut all: Vec<Value> = Vec::new();
    for rule in roles.iter().filter_map(|role| role["rules"].as_array()).flatten() {
        if !all.contains(rule) {
            all.push(rule.clone());
        }
    }
    all
}

impl Controller for Roles {
    type Key = SmolStr;
    const NAME: &'static str = "roles";

    fn observe(&self, notice: &Notice, wanted: &mut Vec<SmolStr>) {
        let mut aggregated = self.aggregated.lock().unwrap_or_else(PoisonError::into_inner);
        match notice {
            Notice::Reset(_) => aggregated.clear(),
            Notice::Put(object) => {
                let role: Value = serde_json::from_slice(&object.json).unwrap_or(Value::Null);
                if selectors(&role).is_some() {
                    aggregated.insert(object.key.name.clone());
                } else {
                    aggregated.remove(&object.key.name);
                }
            }
            Notice::Gone(object) => {
                aggregated.remove(&object.key.name);
            }
            Notice::Synced => {}
        }
        wanted.extend(aggregated.iter().cloned());
    }

    fn look<'a>(
        &'a self,
        key: &'a SmolStr,
        _: &'a mut Vec<SmolStr>,
    ) -> BoxFuture<'a, Result<Next, ApiError>> {
        Box::pin(self.tend(key))
    }
}

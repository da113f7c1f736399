//! RBAC over a source: the index, kept up to the revision that a decision is made at. A role that was created
//! before a request came in counts for that request; nothing runs in the background.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use futures::future::BoxFuture;
use machinery::{ApiError, Reason};
use serde_json::Value;
use source::{Object, ObjectSource, Resource, Revision};
use tokio::sync::Mutex;

use super::follow::{Follow, News};
use super::index::{Index, Scope};
use super::rules::Rule;
use super::{Attributes, Authorizer, Decision, RoleRef};
use crate::user::{MASTERS, UserInfo};

/// The API group of roles and bindings.
pub(crate) const GROUP: &str = "rbac.authorization.k8s.io";

#[derive(Debug, Clone, Copy)]
enum Holds {
    Roles(Scope),
    Bindings(Scope),
}

/// Role-based access control over the roles and bindings of a source.
#[derive(Debug)]
pub struct Rbac {
    source: Arc<dyn ObjectSource>,
    index: RwLock<Index>,
    followed: Mutex<Vec<(Holds, Follow)>>,
    /// The revision that the index is known to include, plus one; 0 before the first list.
    up_to: AtomicU64,
}

impl Rbac {
    /// Over the roles and bindings of a source, which are read when the first decision needs them.
    pub fn new(source: Arc<dyn ObjectSource>) -> Self {
        let followed = [
            (Holds::Roles(Scope::Cluster), "clusterroles"),
            (Holds::Roles(Scope::Namespaced), "roles"),
            (Holds::Bindings(Scope::Cluster), "clusterrolebindings"),
            (Holds::Bindings(Scope::Namespaced), "rolebindings"),
        ]
        .map(|(holds, plural)| (holds, Follow::new(Resource::new(GROUP, plural))));
        Self {
            source,
            index: RwLock::default(),
            followed: Mutex::new(followed.into()),
            up_to: AtomicU64::new(0),
        }
    }

    async fn catch_up(&self) -> Result<(), ApiError> {
        let Revision(target) = self.source.revision();
        if self.up_to.load(Ordering::Acquire) > target {
            return Ok(());
        }
        let mut followed = self.followed.lock().await;
        // Somebody else may have done it while we waited; it then saw at least what was visible to us.
        if self.up_to.load(Ordering::Acquire) > target {
            return Ok(());
        }
        let Revision(target) = self.source.revision();
        for (holds, follow) in followed.iter_mut() {
            let holds = *holds;
            follow
                .catch_up(self.source.as_ref(), &mut |news| self.learn(holds, &news))
                .await
                .map_err(|error| {
                    ApiError::new(Reason::ServiceUnavailable, format!("cannot read roles: {error}"))
                })?;
        }
        self.up_to.store(target.saturating_add(1), Ordering::Release);
        Ok(())
    }

    fn learn(&self, holds: Holds, news: &News<'_>) {
        let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
        match (holds, news) {
            (Holds::Roles(scope), News::All(objects)) => {
                index.clear_roles(scope);
                for object in *objects {
                    index.put_role(&object.key.namespace, &object.key.name, &parse(object));
                }
            }
            (Holds::Bindings(scope), News::All(objects)) => {
                index.clear_bindings(scope);
                for object in *objects {
                    index.put_binding(&object.key.namespace, &object.key.name, &parse(object));
                }
            }
            (Holds::Roles(_), News::Put(object)) => {
                index.put_role(&object.key.namespace, &object.key.name, &parse(object));
            }
            (Holds::Bindings(_), News::Put(object)) => {
                index.put_binding(&object.key.namespace, &object.key.name, &parse(object));
            }
            (Holds::Roles(_), News::Gone(key)) => index.remove_role(&key.namespace, &key.name),
            (Holds::Bindings(_), News::Gone(key)) => index.remove_binding(&key.namespace, &key.name),
        }
    }

    fn read<T>(&self, look: impl FnOnce(&Index) -> T) -> T {
        look(&self.index.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// An object that does not parse grants nothing.
fn parse(object: &Object) -> Value {
    serde_json::from_slice(&object.json).unwrap_or(Value::Null)
}

impl Authorizer for Rbac {
    fn authorize<'a>(
        &'a self,
        user: &'a UserInfo,
        attributes: &'a Attributes,
    ) -> BoxFuture<'a, Result<Decision, ApiError>> {
        Box::pin(async move {
            if user.is_in(MASTERS) {
                return Ok(Decision::allowed(""));
            }
            self.catch_up().await?;
            Ok(self.read(|index| index.authorize(user, attributes)))
        })
    }

    fn rules<'a>(
        &'a self,
        user: &'a UserInfo,
        namespace: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Rule>, ApiError>> {
        Box::pin(async move {
            self.catch_up().await?;
            Ok(self.read(|index| index.rules(user, namespace)))
        })
    }

    fn role<'a>(
        &'a self,
        role: &'a RoleRef,
        namespace: &'a str,
    ) -> BoxFuture<'a, Result<Option<Vec<Rule>>, ApiError>> {
        Box::pin(async move {
            self.catch_up().await?;
            Ok(self
                .read(|index| index.role(role, namespace))
                .map(|rules| rules.to_vec()))
        })
    }
}

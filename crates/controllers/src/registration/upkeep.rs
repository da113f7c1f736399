//! Keeps what approved clusters were granted: their rights as this version wants them, whatever became of those since,
//! and a credential that works, told in the answer to their request.
//!
//! Caches of the few objects tell when something is amiss, projected to what that takes; then everything is asked for
//! live and planned by [`plan::keep_up`].

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use api::{clusters, kubernetes, labels, names};
use distribution::{EventKind, Next};
use kubeio::{Cache, CacheOptions, Change, ObjectKey, Outcome, Queue, QueueOptions};
use machinery::{ApiResource, meta};
use runtime::{CancellationToken, Chain};
use serde_json::{Value, json};

use super::{LOOKS, NO_CREDENTIAL, NO_TOKEN, authority_of, plan, rights, settle};
use crate::shared::Shared;

/// The field of a projected object that says whether it is as it is to be.
const AS_WANTED: &str = "asWanted";
/// The field of a projected Role that says whose token it lets its holder renew; empty in a frozen one that lets nobody.
const RENEWING: &str = "renewing";
/// The field of a projected Secret, and of nothing on the wire, that stands for its credential.
const FINGERPRINT: &str = "fingerprint";

/// Runs until the token is cancelled.
pub(super) async fn run(shared: &Arc<Shared>, workers: usize, stop: &CancellationToken) {
    let granted = Granted::start(shared);
    tokio::select! {
        biased;
        () = stop.cancelled() => return,
        () = granted.ready() => {}
    }
    let queue = Queue::new(QueueOptions {
        base: Duration::from_millis(100),
        max: Duration::from_mins(1),
    });
    tokio::select! {
        biased;
        () = granted.route(shared, &queue) => {}
        () = queue.serve(workers, stop, |key| work(shared, &granted, &queue, key)) => {}
    }
}

/// What approved clusters were granted.
struct Granted {
    cluster_roles: Cache,
    cluster_role_bindings: Cache,
    roles: Cache,
    role_bindings: Cache,
    tokens: Cache,
    /// The parent's authorities. Nobody waits for them: a parent that was prepared by an earlier version does not let
    /// the controllers read them.
    authority: Cache,
}

impl Granted {
    fn start(shared: &Shared) -> Self {
        let rights = |resource: ApiResource| {
            let ours = format!(
                "{}={},{}={}",
                labels::CREATED_BY,
                labels::CREATED_BY_CONTROLLERS,
                labels::BOOTSTRAPPING,
                labels::RBAC_DEFAULTS
            );
            let options = CacheOptions {
                project: project_rights,
                ..CacheOptions::labels(ours)
            };
            Cache::start(shared.client.clone(), resource, options)
        };
        let tokens = CacheOptions {
            field_selector: format!("type={}", plan::TOKEN_TYPE),
            project: project_token,
            ..CacheOptions::labels(format!(
                "{}={},{}",
                labels::CREATED_BY,
                labels::CREATED_BY_AGENT,
                labels::CLUSTER_ID
            ))
        };
        let authority = CacheOptions {
            field_selector: format!("metadata.name={}", names::ROOT_AUTHORITY),
            ..CacheOptions::namespace(names::SYSTEM_NAMESPACE)
        };
        Self {
            cluster_roles: rights(kubernetes::CLUSTER_ROLES),
            cluster_role_bindings: rights(kubernetes::CLUSTER_ROLE_BINDINGS),
            roles: rights(kubernetes::ROLES),
            role_bindings: rights(kubernetes::ROLE_BINDINGS),
            tokens: Cache::start(shared.client.clone(), kubernetes::SECRETS, tokens),
            authority: Cache::start(shared.client.clone(), kubernetes::CONFIG_MAPS, authority),
        }
    }

    fn all(&self) -> [&Cache; 5] {
        let Self {
            cluster_roles,
            cluster_role_bindings,
            roles,
            role_bindings,
            tokens,
            authority: _,
        } = self;
        [cluster_roles, cluster_role_bindings, roles, role_bindings, tokens]
    }

    async fn ready(&self) {
        for cache in self.all() {
            cache.ready().await;
        }
    }

    /// Queues the request that a change concerns, for ever.
    async fn route(&self, shared: &Shared, queue: &Queue<ObjectKey>) {
        let mut requests = shared.cache(&clusters::REGISTRATION_REQUESTS).subscribe();
        let mut members = shared.cache(&clusters::MANAGED_CLUSTERS).subscribe();
        let mut authority = self.authority.subscribe();
        let [mut first, mut second, mut third, mut fourth, mut fifth] = self.all().map(Cache::subscribe);
        loop {
            let change = tokio::select! {
                biased;
                change = requests.next() => {
                    queue.add(change.key);
                    continue;
                }
                change = members.next() => {
                    let id = change.object()["spec"]["clusterId"].as_str().unwrap_or_default();
                    queue.add(ObjectKey::new("", names::for_cluster(id)));
                    continue;
                }
                _ = authority.next() => {
                    for request in shared.cache(&clusters::REGISTRATION_REQUESTS).list() {
                        queue.add(ObjectKey::of(&request));
                    }
                    continue;
                }
                change = first.next() => change,
                change = second.next() => change,
                change = third.next() => change,
                change = fourth.next() => change,
                change = fifth.next() => change,
            };
            queue.add(request_of(&change));
        }
    }

    /// Whether a request that was granted has all that belongs to it, as far as the caches show.
    fn has_all(&self, shared: &Shared, request: &Value) -> bool {
        let name = meta::name(request);
        let home = request["status"]["dedicatedNamespace"].as_str();
        let (Some(cluster_role), Some(cluster_role_binding), Some(role), Some(role_binding)) = (
            self.cluster_roles.get(None, name),
            self.cluster_role_bindings.get(None, name),
            self.roles.get(home, names::MANAGED_CLUSTER_ROLE),
            self.role_bindings.get(home, names::MANAGED_CLUSTER_ROLE),
        ) else {
            return false;
        };
        let account = json!({"metadata": role_binding["subjects"][0]});
        let token = self.tokens.get(home, meta::name(&account));
        let status = &request["status"];
        let cluster = status["managedClusterName"].as_str().unwrap_or_default();
        let cluster = shared.cache(&clusters::MANAGED_CLUSTERS).get(home, cluster);
        let is_equipped = if cluster.is_some_and(|it| plan::renews_itself(&it, shared.env.now())) {
            let authority = self.authority.list().first().and_then(|it| authority_of(it));
            token.is_none()
                && status["token"].is_null()
                && authority.is_none_or(|authority| status["caCertificate"] == authority)
        } else {
            let handed_out = fingerprint(&status["token"], &status["caCertificate"]);
            token.is_some_and(|token| token[FINGERPRINT] == handed_out)
        };
        cluster_role[AS_WANTED] == true
            && role[AS_WANTED] == true
            && cluster_role_binding["subjects"]
                == rights::cluster_subjects(&account, plan::cluster_name(request))
            && [meta::name(&account), ""].contains(&role[RENEWING].as_str().unwrap_or_default())
            && is_equipped
    }
}

/// The request of the cluster that an object belongs to.
fn request_of(change: &Change) -> ObjectKey {
    let id = meta::label(change.object(), labels::CLUSTER_ID).unwrap_or_default();
    ObjectKey::new("", names::for_cluster(id))
}

async fn work(shared: &Shared, granted: &Granted, queue: &Queue<ObjectKey>, key: ObjectKey) -> Outcome {
    let Some(request) = shared.cache(&clusters::REGISTRATION_REQUESTS).get_key(&key) else {
        return Outcome::Done;
    };
    if !plan::is_approved(&request) || granted.has_all(shared, &request) {
        return Outcome::Done;
    }
    match settle(shared, &request, plan::keep_up, |_| true).await {
        Ok(Next::Again(_)) => {
            if queue.failures(&key) == LOOKS {
                shared.tell(&request, EventKind::Warning, NO_CREDENTIAL, NO_TOKEN);
            }
            Outcome::Retry
        }
        Ok(Next::Done) => Outcome::Done,
        Ok(Next::Blocked(why)) => {
            tracing::warn!(name = %key.name, why, "an approved cluster lacks rights or a credential");
            Outcome::Retry
        }
        Err(error) if error.is_conflict() => Outcome::Retry,
        Err(error) => {
            tracing::warn!(name = %key.name, error = %Chain(&error), "an approved cluster lacks rights or a credential");
            Outcome::Retry
        }
    }
}

/// Of roles and bindings, what tells whether they are as they are to be.
fn project_rights(object: Value) -> Value {
    let id = meta::label(&object, labels::CLUSTER_ID).unwrap_or_default();
    let rules = match meta::kind(&object) {
        "ClusterRole" => rights::cluster_rules(id),
        "Role" => rights::namespace_rules(rights::renewing(&object)),
        _ => object["rules"].clone(),
    };
    let as_wanted = rights::correction(&object, &json!({"rules": rules}), "rules").is_none();
    json!({
        "metadata": essence(&object), "subjects": object["subjects"], AS_WANTED: as_wanted,
        RENEWING: rights::renewing(&object),
    })
}

fn project_token(secret: Value) -> Value {
    let fingerprint = fingerprint(&secret["data"]["token"], &secret["data"]["ca.crt"]);
    json!({"metadata": essence(&secret), FINGERPRINT: fingerprint})
}

fn essence(object: &Value) -> Value {
    json!({
        "name": meta::name(object), "namespace": meta::namespace(object),
        "labels": {labels::CLUSTER_ID: meta::label(object, labels::CLUSTER_ID)},
    })
}

/// Stands for a credential without holding it.
fn fingerprint(token: &Value, authority: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    (token.as_str(), authority.as_str()).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_projected_right_says_whether_it_is_as_it_is_to_be() {
        let account = json!({"metadata": {"name": "a", "namespace": "ns"}});
        let spoilt = |mut object: Value| {
            object["rules"] = json!([]);
            object
        };
        let frozen = |mut object: Value| {
            object["metadata"]["annotations"] = json!({});
            object
        };
        for (object, expected) in [
            (rights::cluster_role("id"), true),
            (rights::role("id", "ns", &account), true),
            (rights::cluster_role_binding("id", &account, "edge-7"), true),
            (spoilt(rights::cluster_role("id")), false),
            (spoilt(rights::role("id", "ns", &account)), false),
            (frozen(spoilt(rights::role("id", "ns", &account))), true),
        ] {
            assert_eq!(project_rights(object.clone())[AS_WANTED], expected, "{object}");
        }
    }
}

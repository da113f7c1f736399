//! Controllers that belong to the control plane itself: garbage collection, namespaces, custom resource definitions,
//! aggregated roles, service accounts and their tokens, expired bootstrap tokens and events. All are level-triggered
//! and change only what is not as it should be, so they do no harm beside a kube-controller-manager.

mod accounts;
mod bootstrap_tokens;
mod definitions;
mod events;
mod feed;
mod garbage;
mod local;
mod namespaces;
mod roles;
mod token_secrets;
mod work;

use std::sync::Arc;

use machinery::ApiError;
use source::Resource;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use local::Local;

use crate::bootstrap_policy::{self, Facts};
use crate::server::ApiServer;
use feed::{Observer, feed};
use work::{Controller, run};

/// How many keys may wait for a controller: a full channel slows its feeds down, nothing is lost.
const WAITING: usize = 1_024;

/// Takes charge of a control plane: makes what every one starts with, then runs every controller. They end with
/// `shutdown`; the tracker tells when. Tokens of Secrets are signed with the keys of the server's authenticator.
///
/// # Errors
/// The refusal of a default object.
pub async fn govern(
    server: &Arc<ApiServer>,
    facts: Facts,
    shutdown: &CancellationToken,
) -> Result<TaskTracker, ApiError> {
    bootstrap_policy::ensure(&Local::new(server), &facts).await?;
    Ok(start(server, facts.authority_pem, shutdown))
}

fn start(
    server: &Arc<ApiServer>,
    authority_pem: Option<String>,
    shutdown: &CancellationToken,
) -> TaskTracker {
    let tasks = TaskTracker::new();
    let api = Local::new(server);
    let start = Start {
        server,
        tasks: &tasks,
        shutdown,
    };
    let core = |plural: &str| Resource::new("", plural);
    start.one(
        namespaces::Namespaces::new(server, api.clone()),
        &[core("namespaces")],
    );
    let crds = Resource::new("apiextensions.k8s.io", "customresourcedefinitions");
    start.one(definitions::Definitions::new(server), &[crds]);
    let roles = Resource::new("rbac.authorization.k8s.io", "clusterroles");
    start.one(roles::Roles::new(server, api.clone()), &[roles]);
    start.one(
        accounts::Accounts::new(server, api.clone(), authority_pem.clone()),
        &[core("namespaces"), core("serviceaccounts"), core("configmaps")],
    );
    if let Some(authenticator) = server.gate().authenticator() {
        let tokens = authenticator.tokens().clone();
        start.one(
            token_secrets::TokenSecrets::new(server, api.clone(), tokens, authority_pem),
            &[core("secrets"), core("serviceaccounts")],
        );
    }
    start.one(
        bootstrap_tokens::BootstrapTokens::new(server, api.clone()),
        &[core("secrets")],
    );
    let observer = start.run(garbage::Garbage::new(server, api));
    tasks.spawn(feed::feed_all(
        Arc::downgrade(server),
        observer,
        tasks.clone(),
        shutdown.clone(),
    ));
    tasks.spawn(events::sweep(
        server.source().clone(),
        server.env().clone(),
        shutdown.clone(),
    ));
    tasks.close();
    tasks
}

struct Start<'a> {
    server: &'a Arc<ApiServer>,
    tasks: &'a TaskTracker,
    shutdown: &'a CancellationToken,
}

impl Start<'_> {
    /// Runs a controller on the changes of some resources.
    fn one<C: Controller>(&self, controller: C, resources: &[Resource]) {
        let observer = self.run(controller);
        for resource in resources {
            let source = self.server.source().clone();
            let task = feed(source, resource.clone(), observer.clone(), self.shutdown.clone());
            self.tasks.spawn(task);
        }
    }

    /// Runs a controller on what is shown to the observer.
    fn run<C: Controller>(&self, controller: C) -> Observer<C> {
        let controller = Arc::new(controller);
        let (sender, receiver) = mpsc::channel(WAITING);
        let env = self.server.env().clone();
        self.tasks
            .spawn(run(controller.clone(), receiver, env, self.shutdown.clone()));
        Observer::new(controller, sender)
    }
}

#[cfg(test)]
mod tests;

//! The roles of an embedded parent: what it is prepared with, and the hub, scheduler and controllers beside it.

use std::collections::BTreeMap;

use api::install::{ParentOptions, roles};
use api::kubernetes as k8s;
use api::names;
use clock::Env;
use hub::Hub;
use kubeio::Client;
use machinery::ApiResource;
use runtime::Supervisor;
use serde_json::Value;

use crate::ensure::{Ensured, ensure};
use crate::{Error, Plane};

/// How the kinds of manifests are addressed.
pub(crate) fn manifest_resources() -> BTreeMap<&'static str, ApiResource> {
    [
        ("Namespace", k8s::NAMESPACES),
        ("ServiceAccount", k8s::SERVICE_ACCOUNTS),
        ("ClusterRole", k8s::CLUSTER_ROLES),
        ("ClusterRoleBinding", k8s::CLUSTER_ROLE_BINDINGS),
        ("Role", k8s::ROLES),
        ("RoleBinding", k8s::ROLE_BINDINGS),
        ("CustomResourceDefinition", k8s::CUSTOM_RESOURCE_DEFINITIONS),
    ]
    .into()
}

/// The objects of a parent: definitions first, because rights name them.
pub(crate) fn manifests() -> Vec<Value> {
    let mut objects = api::crds();
    objects.extend(roles(&ParentOptions::default()));
    objects
}

/// Brings a parent to what its roles need.
///
/// # Errors
/// [`Error::Object`] of the first that cannot be made.
pub(crate) async fn prepare(administrator: &Client) -> Result<Ensured, Error> {
    ensure(administrator, &manifest_resources(), &manifests()).await
}

/// A role that can run in a process of its own instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// The scheduler.
    Scheduler,
    /// The controllers.
    Controllers,
}

impl Role {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Scheduler, Self::Controllers];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scheduler => "scheduler",
            Self::Controllers => "controllers",
        }
    }
}

/// Starts hub, scheduler and controllers, each with its own account, but for those that others run.
pub(crate) fn start_roles(plane: &Plane, env: &Env, without: &[Role], tasks: &mut Supervisor) -> Hub {
    let shutdown = tasks.shutdown().clone();
    let hub = Hub::new(
        plane.account(names::HUB).with_server(&plane.url),
        env.clone(),
        hub::Config::default(),
        shutdown.clone(),
    );
    for group in hub.groups() {
        plane.server.add_group(group);
    }
    let metered = hub.clone();
    plane
        .server
        .metrics()
        .hook(move |text| text.push_str(&metered.metrics()));
    if !without.contains(&Role::Scheduler) {
        let scheduling = scheduler::Config::default();
        let counted = scheduling.metrics.clone();
        plane
            .server
            .metrics()
            .hook(move |text| text.push_str(&counted.render()));
        let client = plane.account(names::SCHEDULER).with_server(&plane.url);
        tasks.spawn(
            Role::Scheduler.name(),
            scheduler::run(scheduling, client, env.clone(), shutdown.clone()),
        );
    }
    if !without.contains(&Role::Controllers) {
        let controlling = controllers::Config::default();
        let counted = controlling.metrics.clone();
        plane
            .server
            .metrics()
            .hook(move |text| text.push_str(&counted.render()));
        let client = plane.account(names::CONTROLLERS).with_server(&plane.url);
        tasks.spawn(
            Role::Controllers.name(),
            controllers::run(controlling, client, env.clone(), shutdown),
        );
    }
    hub
}

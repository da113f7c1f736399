//! A simulated member: a control plane of its own, its nodes and pods, and an agent that dials out.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agent::{Child, ParentConnector};
use api::install::{ChildOptions, child};
use api::names;
use clock::Env;
use members::{NodeSpec, SimulatedMetrics, SimulatedPods};
use runtime::Supervisor;
use tunnel::TcpDialer;

use crate::ensure::ensure;
use crate::parent::manifest_resources;
use crate::{Error, HttpsParent, Plane};

/// How often a member's agent reports.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// What a member is.
#[derive(Debug, Clone)]
pub struct MemberConfig {
    /// Its name.
    pub name: String,
    /// How many nodes it has.
    pub nodes: usize,
    /// The labels of its ManagedCluster.
    pub labels: BTreeMap<String, String>,
    /// A bootstrap token of the parent.
    pub token: String,
}

/// Starts a member in a folder; it joins `parent`.
///
/// # Errors
/// [`Error`] of the part that does not start.
pub async fn start_member(
    config: MemberConfig,
    folder: &Path,
    parent: HttpsParent,
    env: &Env,
    planes: &mut Supervisor,
    roles: &mut Supervisor,
) -> Result<Plane, Error> {
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let name = config.name.clone();
    let plane = Plane::start(&name, folder, listen, env, Some(Arc::new(SimulatedPods)), planes).await?;
    ensure(
        &plane.administrator(),
        &manifest_resources(),
        &child(&ChildOptions::default()),
    )
    .await?;

    let metrics = SimulatedMetrics::new(plane.administrator(), env.clone());
    plane.server.add_group(Arc::new(metrics));
    let nodes = (1..=config.nodes)
        .map(|index| NodeSpec::named(format!("{name}-node-{index}")))
        .collect();
    let simulated = members::run(
        members::Config { nodes },
        plane.administrator(),
        env.clone(),
        roles.shutdown().clone(),
    );
    roles.spawn(format!("{name}: nodes"), simulated);

    // The data folder's lock keeps a second agent out, so this one may take up its own lease at once after a crash.
    let mut told = agent::Config::new(parent.url.clone(), config.token, format!("{name}_embedded"));
    told.cluster_name = Some(name.clone());
    told.cluster_labels = config.labels;
    told.use_metrics_server = true;
    told.report_interval = REPORT_INTERVAL;
    told.collect_interval = REPORT_INTERVAL / 2;
    told.child_url.clone_from(&plane.url);
    told.child_ca = plane.authority_pem.clone().into_bytes();
    let child = Child {
        client: plane.account(names::AGENT).with_server(&plane.url),
        dialer: Arc::new(TcpDialer),
    };
    let counted = told.metrics.clone();
    plane
        .server
        .metrics()
        .hook(move |text| text.push_str(&counted.render()));
    let connector: Arc<dyn ParentConnector> = Arc::new(parent);
    let agent = agent::run(told, child, connector, env.clone(), roles.shutdown().clone());
    roles.spawn(format!("{name}: agent"), agent);
    Ok(plane)
}

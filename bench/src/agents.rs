//! Many agents in one process, each in a control plane of its own that lies in memory. They dial out to one hub over TLS
//! as agents do; each arrival of a watched object is printed, a line each.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use agent::{Child, ParentConnector};
use anyhow::Context as _;
use api::kubernetes::{CONFIG_MAPS, NAMESPACES};
use apiserver::{ApiServer, UserInfo};
use assembly::HttpsParent;
use clock::Env;
use clock::disk::SimDisk;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use kubeio::{Cache, CacheOptions, CancellationToken, Client};
use serde_json::json;
use tunnel::TcpDialer;

/// Where the objects arrive.
pub(crate) const NAMESPACE: &str = "fleet";
/// The key of a ConfigMap that says which version it is.
pub(crate) const VERSION: &str = "version";
/// How many are started at a time.
const STARTING: usize = 16;

/// The name of a cluster.
pub(crate) fn cluster_name(index: usize) -> String {
    format!("member-{index}")
}

/// What a line says: an object came, in a version, to a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) cluster: usize,
    pub(crate) name: String,
    pub(crate) version: String,
    /// Since the epoch.
    pub(crate) at: Duration,
}

impl Arrival {
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let mut word = || words.next();
        let (cluster, name, version, micros) = (word()?, word()?, word()?, word()?);
        Some(Self {
            cluster: cluster.parse().ok()?,
            name: name.to_owned(),
            version: version.to_owned(),
            at: Duration::from_micros(micros.parse().ok()?),
        })
    }

    fn line(&self) -> String {
        let Self {
            cluster,
            name,
            version,
            at,
        } = self;
        format!("{cluster} {name} {version} {}\n", at.as_micros())
    }
}

/// Since the epoch.
pub(crate) fn now() -> Duration {
    SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default()
}

/// Runs until the process is killed.
pub(crate) async fn run(count: usize, url: &str, token: &str, authority: &Path) -> anyhow::Result<()> {
    let authority = std::fs::read_to_string(authority)?;
    let parent = HttpsParent {
        url: url.to_owned(),
        authority_pem: Some(authority),
    };
    let stop = CancellationToken::new();
    stream::iter(0..count)
        .map(|index| start(index, token, parent.clone(), stop.clone()))
        .buffer_unordered(STARTING)
        .try_collect::<Vec<()>>()
        .await?;
    std::future::pending().await
}

async fn start(
    index: usize,
    token: &str,
    parent: HttpsParent,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let env = Env::system();
    let disk = Arc::new(SimDisk::new(index as u64));
    let store = store::Store::open(disk, store::Options::new(env.clone()), store::Mode::Inline)?;
    let config = apiserver::Config::new(store, env.clone(), Arc::new(apiserver::authz::AllowAll));
    let server = ApiServer::start(config).await?;
    let client = Client::from_service(server.client_service(UserInfo::loopback()));
    for name in [api::names::SYSTEM_NAMESPACE, NAMESPACE] {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        client.create(&NAMESPACES, None, &namespace).await?;
    }
    tokio::spawn(watch(index, client.clone()));
    let name = cluster_name(index);
    let mut config = agent::Config::new(parent.url.clone(), token.to_owned(), format!("{name}_bench"));
    config.cluster_name = Some(name);
    config.child_url = "https://127.0.0.1:1".to_owned();
    let child = Child {
        client,
        dialer: Arc::new(TcpDialer),
    };
    let parent: Arc<dyn ParentConnector> = Arc::new(parent);
    tokio::spawn(agent::run(config, child, parent, env, stop));
    Ok(())
}

/// Tells of each write of a ConfigMap.
async fn watch(cluster: usize, client: Client) -> anyhow::Result<()> {
    let cache = Cache::start(client, CONFIG_MAPS, CacheOptions::namespace(NAMESPACE));
    let mut changes = cache.subscribe();
    loop {
        let change = changes.next().await;
        let Some(object) = change.new else {
            continue;
        };
        let arrival = Arrival {
            cluster,
            name: change.key.name,
            version: object["data"][VERSION].as_str().unwrap_or("-").to_owned(),
            at: now(),
        };
        std::io::stdout()
            .write_all(arrival.line().as_bytes())
            .context("nobody listens")?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let arrival = Arrival {
            cluster: 7,
            name: "a".to_owned(),
            version: "3".to_owned(),
            at: Duration::from_micros(1_234_567),
        };
        assert_eq!(Arrival::parse(&arrival.line()), Some(arrival));
        assert_eq!(Arrival::parse("7 a 3"), None);
        assert_eq!(Arrival::parse(""), None);
    }
}

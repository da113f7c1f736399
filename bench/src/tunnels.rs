//! One embedded hub and thousands of agents with live tunnels: memory, how soon a change is everywhere, and a restart.
//!
//! Hub and agents are two processes on the same machine and share its processors; the agents' share is printed.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use api::apps::SUBSCRIPTIONS;
use api::clusters::MANAGED_CLUSTERS;
use api::kubernetes::SECRETS;
use kubeio::{Client, ListOptions, Patch};
use machinery::{ApiResource, meta};
use serde_json::{Value, json};

use crate::agents::{self, Arrival, NAMESPACE, VERSION, cluster_name};
use crate::figures::{Figures, Goal, quantile};
use crate::servers::{self, Process};

/// As many as the goals speak of.
pub(crate) const CLUSTERS: usize = 5_000;
/// Objects that each cluster gets: 30,000 in all.
const OBJECTS: usize = 6;
/// Changes for one cluster that are timed.
const SINGLE_CHANGES: usize = 200;
const LISTEN: &str = "127.0.0.1:17191";
/// Nothing that is waited for may take longer.
const LIMIT: Duration = Duration::from_secs(1_800);
/// Before memory is read: every watch is open, every report was made.
const REST: Duration = Duration::from_secs(20);

const TEMPLATES: ApiResource = ApiResource::namespaced("shadow", "v1alpha1", "configmaps", "ConfigMap");
const LOCALIZATIONS: ApiResource = api::apps::LOCALIZATIONS;

/// The agents' process and what it tells.
struct Agents {
    process: Child,
    arrivals: Receiver<Arrival>,
}

impl Drop for Agents {
    fn drop(&mut self) {
        // It may have ended by itself.
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

impl Agents {
    fn start(count: usize, token: &str, scratch: &Path) -> anyhow::Result<Self> {
        let log = std::fs::File::create(scratch.join("agents.log"))?;
        let mut process = Command::new(std::env::current_exe()?)
            .args(["agents", &count.to_string(), &format!("https://{LISTEN}"), token])
            .arg(scratch.join("authority.pem"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()?;
        let output = process.stdout.take().context("its output is piped")?;
        let (sender, arrivals) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if let Some(arrival) = Arrival::parse(&line)
                    && sender.send(arrival).is_err()
                {
                    return;
                }
            }
        });
        Ok(Self { process, arrivals })
    }

    /// The moments since `start` at which the clusters got this version of an object, once there are `count`.
    fn await_version(
        &self,
        name: &str,
        version: &str,
        count: usize,
        start: Duration,
    ) -> anyhow::Result<Vec<f64>> {
        let mut seen = BTreeSet::new();
        let mut moments = Vec::with_capacity(count);
        let begin = Instant::now();
        while moments.len() < count {
            let left = LIMIT.saturating_sub(begin.elapsed());
            match self.arrivals.recv_timeout(left) {
                Ok(it) if it.name == name && it.version == version && seen.insert(it.cluster) => {
                    moments.push(it.at.saturating_sub(start).as_secs_f64());
                }
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => {
                    bail!("{name} {version} came to {} of {count} clusters", moments.len())
                }
                Err(RecvTimeoutError::Disconnected) => bail!("the agents' process ended"),
            }
        }
        Ok(moments)
    }

    /// What has come and nobody waited for.
    fn drain(&self) -> Vec<Arrival> {
        self.arrivals.try_iter().collect()
    }
}

struct Hub {
    process: Process,
    client: Client,
}

impl Hub {
    async fn start(scratch: &Path) -> anyhow::Result<Self> {
        let data = scratch.join("hub");
        let kubeconfig = data.join("kubeconfig");
        let mut command = Command::new(servers::tombolo()?);
        command
            .args(["up", "--members", "0", "--listen", LISTEN, "--data-dir"])
            .arg(&data);
        let process = Process::start(&mut command, scratch)?;
        let client = await_ready(&kubeconfig).await?;
        Ok(Self { process, client })
    }

    /// The tunnels that are up.
    async fn tunnels(&self) -> anyhow::Result<usize> {
        let request = http::Request::get("/metrics").body(Vec::new())?;
        let answer = self.client.request(request).await?;
        let text = String::from_utf8_lossy(answer.body()).into_owned();
        let line = text
            .lines()
            .find(|line| line.starts_with("clusternet_socket_connections_count"));
        let figure = line.and_then(|line| line.rsplit(' ').next());
        Ok(figure.and_then(|it| it.parse::<f64>().ok()).unwrap_or_default() as usize)
    }

    async fn ready_clusters(&self) -> anyhow::Result<usize> {
        let all = self
            .client
            .list_all(&MANAGED_CLUSTERS, None, &ListOptions::default())
            .await?;
        Ok(all
            .items
            .iter()
            .filter(|it| assembly::fleet::is_ready(it))
            .count())
    }

    async fn update(&self, name: &str, version: &str) -> anyhow::Result<Duration> {
        let patch = json!({"data": {VERSION: version}});
        let start = agents::now();
        self.client
            .patch(&TEMPLATES, Some(NAMESPACE), name, None, Patch::Merge, &patch)
            .await?;
        Ok(start)
    }
}

/// A client of a hub, once that serves everything.
pub(crate) async fn await_ready(kubeconfig: &Path) -> anyhow::Result<Client> {
    let start = Instant::now();
    loop {
        let attempt = async {
            let client = Client::from_kubeconfig_file(kubeconfig).await?;
            client.get_path("/apis/shadow/v1alpha1").await?;
            anyhow::Ok(client)
        };
        match attempt.await {
            Ok(client) => return Ok(client),
            Err(error) if start.elapsed() > Duration::from_secs(60) => return Err(error),
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}

/// Runs everything with this many clusters.
pub(crate) async fn run(count: usize, scratch: &Path) -> anyhow::Result<()> {
    let mut figures = Figures::default();
    figures.add(
        "open files that one process may have",
        open_files()?,
        Goal::AtLeast(3.0 * count as f64),
    );
    let hub = Hub::start(scratch).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let empty_kib = hub.process.memory_kib("VmRSS")?;

    let token = bootstrap_token(&hub.client).await?;
    write_authority(&scratch.join("hub/kubeconfig"), &scratch.join("authority.pem"))?;
    let agents = Agents::start(count, &token, scratch)?;
    let start = Instant::now();
    await_tunnels(&hub, count).await?;
    figures.add(
        format!("{count} clusters joined, with live tunnels, after s"),
        start.elapsed().as_secs_f64(),
        Goal::None,
    );
    tokio::time::sleep(REST).await;
    let per_cluster = (hub.process.memory_kib("VmRSS")? - empty_kib) * 1_024.0 / 1_000.0 / count as f64;
    figures.add(
        "hub's memory per idle cluster, KB",
        per_cluster,
        Goal::AtMost(200.0),
    );

    changes(&hub, &agents, count, &mut figures).await?;
    drop(restart(hub, &agents, scratch, count, &mut figures).await?);
    figures.print();
    Ok(())
}

/// How soon objects, changes, and changes for one cluster are where they belong.
async fn changes(hub: &Hub, agents: &Agents, count: usize, figures: &mut Figures) -> anyhow::Result<()> {
    let start = agents::now();
    for index in 0..OBJECTS {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": object_name(index), "namespace": NAMESPACE},
            "data": {VERSION: "1", "fill": "x".repeat(900)},
        });
        hub.client.create(&TEMPLATES, Some(NAMESPACE), &object).await?;
    }
    let feeds: Vec<Value> = (0..OBJECTS)
        .map(|index| {
            json!({"apiVersion": "v1", "kind": "ConfigMap", "namespace": NAMESPACE, "name": object_name(index)})
        })
        .collect();
    let subscription = json!({
        "apiVersion": SUBSCRIPTIONS.api_version(), "kind": SUBSCRIPTIONS.kind,
        "metadata": {"name": "all", "namespace": "default"},
        "spec": {"subscribers": [{"clusterAffinity": {}}], "feeds": feeds},
    });
    hub.client
        .create(&SUBSCRIPTIONS, Some("default"), &subscription)
        .await?;
    let moments = agents.await_version(&object_name(OBJECTS - 1), "1", count, start)?;
    figures.add(
        format!("{} objects are where they belong, after s", OBJECTS * count),
        quantile(&moments, 1.0),
        Goal::None,
    );
    await_settled(hub, count).await?;

    let before = Times::of(hub, agents)?;
    let start = hub.update(&object_name(0), "2").await?;
    let moments = agents.await_version(&object_name(0), "2", count, start)?;
    figures.add(
        "one object's change reaches half of them after s",
        quantile(&moments, 0.5),
        Goal::None,
    );
    figures.add("  all of them", quantile(&moments, 1.0), Goal::AtMost(5.0));
    let after = Times::of(hub, agents)?;
    figures.add(
        "  of the processor time, the agents' share, %",
        after.share_since(&before),
        Goal::None,
    );
    await_settled(hub, count).await?;

    let homes = homes(hub).await?;
    let mut moments = Vec::new();
    for round in 0..SINGLE_CHANGES {
        let index = round * 7_919 % count;
        let home = homes
            .iter()
            .find(|(name, _)| *name == cluster_name(index))
            .map(|(_, home)| home.as_str())
            .context("every cluster has a namespace")?;
        let version = format!("single-{round}");
        let localization = json!({
            "apiVersion": LOCALIZATIONS.api_version(), "kind": LOCALIZATIONS.kind,
            "metadata": {"name": format!("single-{round}"), "namespace": home},
            "spec": {
                "overridePolicy": "ApplyNow", "priority": 500 + round % 500,
                "feed": {"apiVersion": "v1", "kind": "ConfigMap", "namespace": NAMESPACE, "name": object_name(1)},
                "overrides": [{"name": "version", "type": "MergePatch",
                               "value": json!({"data": {VERSION: version}}).to_string()}],
            },
        });
        let start = agents::now();
        hub.client
            .create(&LOCALIZATIONS, Some(home), &localization)
            .await?;
        moments.extend(agents.await_version(&object_name(1), &version, 1, start)?);
    }
    figures.add(
        "a change for one cluster arrives after s, median",
        quantile(&moments, 0.5),
        Goal::None,
    );
    figures.add("  99 of 100", quantile(&moments, 0.99), Goal::AtMost(1.0));
    Ok(())
}

/// Ends the hub as a machine's failure would, starts it again, and changes something.
async fn restart(
    hub: Hub,
    agents: &Agents,
    scratch: &Path,
    count: usize,
    figures: &mut Figures,
) -> anyhow::Result<Hub> {
    tokio::time::sleep(REST).await;
    agents.drain();
    drop(hub);
    let start = agents::now();
    let hub = Hub::start(scratch).await?;
    figures.add(
        "killed hub answers again after s",
        agents::now().saturating_sub(start).as_secs_f64(),
        Goal::None,
    );
    hub.update(&object_name(2), "2").await?;
    let first = agents.await_version(&object_name(2), "2", 1, start)?;
    figures.add(
        "  first change is served after s",
        quantile(&first, 0.0),
        Goal::AtMost(10.0),
    );
    let begin = Instant::now();
    await_tunnels(&hub, count).await?;
    figures.add(
        "  all tunnels are back after s more",
        begin.elapsed().as_secs_f64(),
        Goal::None,
    );
    await_settled(&hub, count).await?;
    tokio::time::sleep(REST).await;
    let again = agents
        .drain()
        .into_iter()
        .filter(|it| it.name != object_name(2))
        .count();
    figures.add(
        "  objects that were written again",
        again as f64,
        Goal::AtMost(0.0),
    );
    Ok(hub)
}

fn object_name(index: usize) -> String {
    format!("object-{index}")
}

/// Processor time of both processes, in seconds.
struct Times {
    hub: f64,
    agents: f64,
}

impl Times {
    fn of(hub: &Hub, agents: &Agents) -> anyhow::Result<Self> {
        Ok(Self {
            hub: servers::processor_seconds(hub.process.id())?,
            agents: servers::processor_seconds(agents.process.id())?,
        })
    }

    fn share_since(&self, before: &Self) -> f64 {
        let (hub, agents) = (self.hub - before.hub, self.agents - before.agents);
        agents / (hub + agents).max(f64::MIN_POSITIVE) * 100.0
    }
}

/// Waits until every cluster is ready and has its tunnel. A hub that does not answer has not got that far.
async fn await_tunnels(hub: &Hub, count: usize) -> anyhow::Result<()> {
    let start = Instant::now();
    loop {
        let missing = match missing(hub, count).await {
            Ok(None) => return Ok(()),
            Ok(Some(missing)) => missing,
            Err(error) => format!("{error:#}"),
        };
        if start.elapsed() > LIMIT {
            bail!(missing);
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// What is missing until every cluster is ready and has its tunnel, if anything.
async fn missing(hub: &Hub, count: usize) -> anyhow::Result<Option<String>> {
    let tunnels = hub.tunnels().await?;
    if tunnels < count {
        return Ok(Some(format!("{tunnels} of {count} tunnels are up")));
    }
    let ready = hub.ready_clusters().await?;
    Ok((ready < count).then(|| format!("{ready} of {count} clusters are ready")))
}

/// Waits until the status says that all clusters have everything.
async fn await_settled(hub: &Hub, count: usize) -> anyhow::Result<()> {
    let start = Instant::now();
    loop {
        let it = hub.client.get(&SUBSCRIPTIONS, Some("default"), "all").await?;
        let completed = it["status"]["completedReleases"].as_u64().unwrap_or_default();
        if completed >= count as u64 {
            return Ok(());
        }
        if start.elapsed() > LIMIT {
            bail!("{completed} of {count} clusters have everything");
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Names and dedicated namespaces.
async fn homes(hub: &Hub) -> anyhow::Result<Vec<(String, String)>> {
    let all = hub
        .client
        .list_all(&MANAGED_CLUSTERS, None, &ListOptions::default())
        .await?;
    let of = |it: &Value| (meta::name(it).to_owned(), meta::namespace(it).to_owned());
    Ok(all.items.iter().map(of).collect())
}

/// How many files a process may have open, from `/proc`.
fn open_files() -> anyhow::Result<f64> {
    let limits = std::fs::read_to_string("/proc/self/limits")?;
    let line = limits.lines().find(|line| line.starts_with("Max open files"));
    let soft = line.and_then(|line| line.split_whitespace().nth(3));
    Ok(soft.context("no limit of open files")?.parse()?)
}

/// Lets agents register.
pub(crate) async fn bootstrap_token(client: &Client) -> anyhow::Result<String> {
    let (id, secret) = ("benchm", "0123456789abcdef");
    let object = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
        "metadata": {"name": format!("bootstrap-token-{id}"), "namespace": "kube-system"},
        "stringData": {
            "token-id": id, "token-secret": secret, "usage-bootstrap-authentication": "true",
            "auth-extra-groups": api::names::BOOTSTRAP_GROUP,
        },
    });
    client.create(&SECRETS, Some("kube-system"), &object).await?;
    Ok(format!("{id}.{secret}"))
}

/// Takes a hub's authority out of its kubeconfig.
pub(crate) fn write_authority(kubeconfig: &Path, file: &Path) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(kubeconfig)?;
    let config = codec::yaml::parse_one(&text).map_err(|error| anyhow::anyhow!("{error}"))?;
    let data = &config["clusters"][0]["cluster"]["certificate-authority-data"];
    let pem = api::secret::decode(data).context("no authority in the kubeconfig")?;
    Ok(std::fs::write(file, pem)?)
}

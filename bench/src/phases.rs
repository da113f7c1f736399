//! What is measured: durable writes, reads, lists, memory, watchers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::future::try_join_all;
use http::Method;
use http_body_util::BodyExt as _;
use tokio::sync::Notify;

use crate::client::Client;
use crate::report::{Metric, Report};
use crate::servers::{Kind, Server};

/// How many clients send at once, each on a connection of its own.
const CLIENTS: usize = 32;
/// How many objects lie in the listed namespace.
pub(crate) const LISTED: usize = 4_000;
/// How many objects there are when memory is read.
const STORED: usize = 10_000;
/// A phase ends after this long…
const PHASE: Duration = Duration::from_secs(6);
/// …or after this many requests, which bounds what is stored meanwhile.
const PHASE_REQUESTS: usize = 60_000;
/// Memory is read after this long without requests: what was needed for the last ones is not what lies there.
pub(crate) const REST: Duration = Duration::from_secs(3);
const WATCHERS: usize = 1_000;
const WATCHED_CREATES: usize = 1_000;
/// When waiting for the watchers' events ends.
const WATCH_LIMIT: Duration = Duration::from_secs(120);
const JSON: &str = "application/json";
const MERGE_PATCH: &str = "application/merge-patch+json";

/// A ConfigMap of about 1 KiB.
pub(crate) fn object(name: &str) -> String {
    let filler = "x".repeat(840);
    format!(
        "{{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":{{\"name\":\"{name}\",\"labels\":\
         {{\"app\":\"bench\"}}}},\"data\":{{\"filler\":\"{filler}\",\"key\":\"value\"}}}}"
    )
}

fn path(namespace: &str, name: Option<&str>) -> String {
    let collection = format!("/api/v1/namespaces/{namespace}/configmaps");
    name.map_or(collection.clone(), |name| format!("{collection}/{name}"))
}

fn name(index: usize) -> String {
    format!("object-{index}")
}

/// Takes all measurements of one server that was just started and is empty.
pub(crate) async fn run(server: &Server, report: &mut Report) -> anyhow::Result<()> {
    report.add(
        Metric::StartToReady,
        server.kind,
        server.start_to_ready.as_secs_f64(),
    );
    let clients = try_join_all((0..CLIENTS).map(|_| server.target.connect())).await?;
    let mut admin = server.target.connect().await?;
    if server.kind != Kind::Null {
        for namespace in ["bench", "listed", "stored", "watched"] {
            let body = format!(
                "{{\"kind\":\"Namespace\",\"apiVersion\":\"v1\",\"metadata\":{{\"name\":\"{namespace}\"}}}}"
            );
            admin
                .call(Method::POST, "/api/v1/namespaces", JSON, body.into())
                .await?;
        }
    }
    // This also warms up client and server.
    fill(&clients, "listed", LISTED).await?;
    fill(&clients, "stored", STORED - LISTED).await?;
    tokio::time::sleep(REST).await;
    report.add(Metric::ResidentMib, server.kind, server.resident_mib()?);

    requests(server, &clients, report).await?;
    let lists = flood(&clients, usize::MAX, Some(LISTED * object("").len()), |_| {
        (Method::GET, path("listed", None), JSON, Bytes::new())
    })
    .await?;
    report.add(Metric::Lists, server.kind, lists.per_second);
    if server.kind == Kind::Null {
        return Ok(());
    }
    tokio::time::sleep(REST).await;
    report.add(Metric::ResidentLaterMib, server.kind, server.resident_mib()?);
    watchers(server, &clients, &mut admin, report).await
}

/// Creates, patches, gets and deletes.
async fn requests(server: &Server, clients: &[Client], report: &mut Report) -> anyhow::Result<()> {
    let creates = flood(clients, PHASE_REQUESTS, None, |index| {
        (
            Method::POST,
            path("bench", None),
            JSON,
            object(&name(index)).into(),
        )
    })
    .await?;
    report.add(Metric::Creates, server.kind, creates.per_second);
    let count = creates.done;
    let patches = flood(clients, PHASE_REQUESTS, None, move |index| {
        let body = format!("{{\"data\":{{\"key\":\"value-{index}\"}}}}");
        (
            Method::PATCH,
            path("bench", Some(&name(index % count))),
            MERGE_PATCH,
            body.into(),
        )
    })
    .await?;
    report.add(Metric::Patches, server.kind, patches.per_second);
    let gets = flood(clients, usize::MAX, None, move |index| {
        (
            Method::GET,
            path("bench", Some(&name(index % count))),
            JSON,
            Bytes::new(),
        )
    })
    .await?;
    report.add(Metric::Gets, server.kind, gets.per_second);
    let deletes = flood(clients, count, None, |index| {
        (
            Method::DELETE,
            path("bench", Some(&name(index))),
            JSON,
            Bytes::new(),
        )
    })
    .await?;
    report.add(Metric::Deletes, server.kind, deletes.per_second);
    // What is left, if there was no time for all.
    each(clients, deletes.done..count, |index| {
        (
            Method::DELETE,
            path("bench", Some(&name(index))),
            JSON,
            Bytes::new(),
        )
    })
    .await
}

pub(crate) type Call = (Method, String, &'static str, Bytes);

async fn fill(clients: &[Client], namespace: &'static str, count: usize) -> anyhow::Result<()> {
    each(clients, 0..count, move |index| {
        let body = Bytes::from(object(&format!("filled-{index}")));
        (Method::POST, path(namespace, None), JSON, body)
    })
    .await
}

/// Sends a request for each of the numbers, from all clients at once.
pub(crate) async fn each<F>(
    clients: &[Client],
    range: std::ops::Range<usize>,
    request: F,
) -> anyhow::Result<()>
where
    F: Fn(usize) -> Call + Send + Sync + 'static,
{
    let first = range.start;
    send(clients, range.len(), None, None, move |index| {
        request(first + index)
    })
    .await?;
    Ok(())
}

struct Flood {
    per_second: f64,
    /// All requests below this number were answered.
    done: usize,
}

/// Sends requests from all clients at once, for [`PHASE`] or until there were `count`. Answers must not be shorter
/// than `least`.
async fn flood<F>(clients: &[Client], count: usize, least: Option<usize>, request: F) -> anyhow::Result<Flood>
where
    F: Fn(usize) -> Call + Send + Sync + 'static,
{
    send(clients, count, Some(PHASE), least, request).await
}

async fn send<F>(
    clients: &[Client],
    count: usize,
    limit: Option<Duration>,
    least: Option<usize>,
    request: F,
) -> anyhow::Result<Flood>
where
    F: Fn(usize) -> Call + Send + Sync + 'static,
{
    let (next, request) = (Arc::new(AtomicUsize::new(0)), Arc::new(request));
    let start = Instant::now();
    let tasks = clients.iter().cloned().map(|mut client| {
        let (next, request) = (next.clone(), request.clone());
        tokio::spawn(async move {
            while limit.is_none_or(|limit| start.elapsed() < limit) {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= count {
                    break;
                }
                let (method, path, content_type, body) = request(index);
                let length = client.drain(method, &path, content_type, body).await?;
                anyhow::ensure!(
                    least.is_none_or(|least| length >= least),
                    "{path}: an answer of {length} bytes"
                );
            }
            anyhow::Ok(())
        })
    });
    for done in try_join_all(tasks).await? {
        done?;
    }
    let done = next.load(Ordering::Relaxed).min(count);
    Ok(Flood {
        per_second: done as f64 / start.elapsed().as_secs_f64(),
        done,
    })
}

async fn watchers(
    server: &Server,
    clients: &[Client],
    admin: &mut Client,
    report: &mut Report,
) -> anyhow::Result<()> {
    let list = admin
        .call(Method::GET, &path("watched", None), JSON, Bytes::new())
        .await?;
    let list: serde_json::Value = serde_json::from_slice(&list)?;
    let revision = list["metadata"]["resourceVersion"]
        .as_str()
        .unwrap_or("0")
        .to_owned();
    let seen = Arc::new(AtomicU64::new(0));
    let all = u64::try_from(WATCHERS * WATCHED_CREATES)?;
    let done = Arc::new(Notify::new());
    let connections = try_join_all((0..CLIENTS).map(|_| server.target.connect())).await?;
    let mut tasks = Vec::with_capacity(WATCHERS);
    for index in 0..WATCHERS {
        let mut client = connections[index % CLIENTS].clone();
        let target = format!("{}?watch=1&resourceVersion={revision}", path("watched", None));
        let response = client.send(Method::GET, &target, JSON, Bytes::new()).await?;
        anyhow::ensure!(
            response.status().is_success(),
            "a watch was refused: {}",
            response.status()
        );
        let (seen, done) = (seen.clone(), done.clone());
        tasks.push(tokio::spawn(async move {
            let mut body = response.into_body();
            while let Some(Ok(frame)) = body.frame().await {
                // An event is a line.
                let lines = frame
                    .data_ref()
                    .map_or(0, |data| memchr::memchr_iter(b'\n', data).count());
                if seen.fetch_add(lines as u64, Ordering::Relaxed) + lines as u64 >= all {
                    done.notify_one();
                }
            }
        }));
    }
    let start = Instant::now();
    fill(clients, "watched", WATCHED_CREATES).await?;
    let left = WATCH_LIMIT.saturating_sub(start.elapsed());
    let _too_slow = tokio::time::timeout(left, done.notified()).await;
    report.add(Metric::WatchSeconds, server.kind, start.elapsed().as_secs_f64());
    let share = seen.load(Ordering::Relaxed) as f64 / all as f64;
    report.add(Metric::WatchPercent, server.kind, share * 100.0);
    for task in tasks {
        task.abort();
    }
    Ok(())
}

//! What is measured: durable writes, reads, lists, memory, watchers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::future::try_join_all;
use http::Method;
use http_body_util::BodyExt as _;
use tokio::sync::Notify;

use crate::client::Client;
use crate::report::{Metric, Report};
use crate::servers::{Kind, Server};

/// How many clients send at once.
const CLIENTS: usize = 32;
/// How many objects lie in the listed namespace.
pub(crate) const LISTED: usize = 4_000;
/// How many objects there are when memory is read.
const STORED: usize = 10_000;
const WATCHERS: usize = 1_000;
const WATCHED_CREATES: usize = 1_000;
/// When waiting for the watchers' events ends.
const WATCH_LIMIT: Duration = Duration::from_secs(120);
const JSON: &str = "application/json";

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

pub(crate) async fn run(server: &Server, report: &mut Report) -> anyhow::Result<()> {
    report.add(Metric::StartToReady, server.kind, server.start_to_ready.as_secs_f64());
    let clients = try_join_all((0..CLIENTS).map(|_| server.target.connect())).await?;
    let mut admin = server.target.connect().await?;
    if server.kind != Kind::Null {
        for namespace in ["bench", "listed", "watched"] {
            let body = format!(
                "{{\"kind\":\"Namespace\",\"apiVersion\":\"v1\",\"metadata\":{{\"name\":\"{namespace}\"}}}}"
            );
            admin.call(Method::POST, "/api/v1/namespaces", JSON, body.into()).await?;
        }
    }
    let count = match server.kind {
        Kind::Kubernetes => 6_000,
        Kind::Null | Kind::Tombolo => 40_000,
    };
    let name = |index: usize| format!("object-{index}");
    let each = |clients: &[Client], count: usize, method: Method, kind: &'static str, body: Body| {
        flood(clients.to_vec(), count, move |index| {
            let name = name(index);
            let target = match body {
                Body::Object => path("bench", None),
                Body::Patch | Body::Nothing => path("bench", Some(&name)),
            };
            let bytes = match body {
                Body::Object => Bytes::from(object(&name)),
                Body::Patch => Bytes::from(format!("{{\"data\":{{\"key\":\"value-{index}\"}}}}")),
                Body::Nothing => Bytes::new(),
            };
            (method.clone(), target, kind, bytes)
        })
    };
    let creates = each(&clients, count, Method::POST, JSON, Body::Object).await?;
    report.add(Metric::Creates, server.kind, creates);
    let patches = each(&clients, count, Method::PATCH, "application/merge-patch+json", Body::Patch).await?;
    report.add(Metric::Patches, server.kind, patches);
    let gets = each(&clients, count, Method::GET, JSON, Body::Nothing).await?;
    report.add(Metric::Gets, server.kind, gets);
    let deletes = each(&clients, count, Method::DELETE, JSON, Body::Nothing).await?;
    report.add(Metric::Deletes, server.kind, deletes);

    if server.kind != Kind::Null {
        fill(&clients, "listed", LISTED).await?;
    }
    let rounds = if server.kind == Kind::Kubernetes { 60 } else { 200 };
    let lists =
        flood(clients.clone(), rounds, |_| (Method::GET, path("listed", None), JSON, Bytes::new())).await?;
    report.add(Metric::Lists, server.kind, lists);
    if server.kind == Kind::Null {
        return Ok(());
    }
    fill(&clients, "bench", STORED - LISTED).await?;
    report.add(Metric::ResidentMib, server.kind, server.resident_bytes()? as f64 / f64::from(1 << 20));
    watchers(server, &clients, &mut admin, report).await
}

#[derive(Clone, Copy)]
enum Body {
    Object,
    Patch,
    Nothing,
}

async fn fill(clients: &[Client], namespace: &'static str, count: usize) -> anyhow::Result<()> {
    flood(clients.to_vec(), count, move |index| {
        let body = Bytes::from(object(&format!("filled-{index}")));
        (Method::POST, path(namespace, None), JSON, body)
    })
    .await?;
    Ok(())
}

/// Sends `count` requests from all clients at once; gives requests a second.
async fn flood<F>(clients: Vec<Client>, count: usize, request: F) -> anyhow::Result<f64>
where
    F: Fn(usize) -> (Method, String, &'static str, Bytes) + Send + Sync + 'static,
{
    let (next, request) = (Arc::new(AtomicU64::new(0)), Arc::new(request));
    let start = Instant::now();
    let tasks = clients.into_iter().map(|mut client| {
        let (next, request) = (next.clone(), request.clone());
        tokio::spawn(async move {
            loop {
                let index = usize::try_from(next.fetch_add(1, Ordering::Relaxed))?;
                if index >= count {
                    return anyhow::Ok(());
                }
                let (method, path, content_type, body) = request(index);
                client.call(method, &path, content_type, body).await?;
            }
        })
    });
    for done in try_join_all(tasks).await? {
        done?;
    }
    Ok(count as f64 / start.elapsed().as_secs_f64())
}

async fn watchers(
    server: &Server,
    clients: &[Client],
    admin: &mut Client,
    report: &mut Report,
) -> anyhow::Result<()> {
    let list = admin.call(Method::GET, &path("watched", None), JSON, Bytes::new()).await?;
    let list: serde_json::Value = serde_json::from_slice(&list)?;
    let revision = list["metadata"]["resourceVersion"].as_str().unwrap_or("0").to_owned();
    let seen = Arc::new(AtomicU64::new(0));
    let all = u64::try_from(WATCHERS * WATCHED_CREATES)?;
    let done = Arc::new(Notify::new());
    let connections = try_join_all((0..CLIENTS).map(|_| server.target.connect())).await?;
    let mut tasks = Vec::with_capacity(WATCHERS);
    for index in 0..WATCHERS {
        let mut client = connections[index % CLIENTS].clone();
        let target = format!("{}?watch=1&resourceVersion={revision}", path("watched", None));
        let response = client.send(Method::GET, &target, JSON, Bytes::new()).await?;
        let (seen, done) = (seen.clone(), done.clone());
        tasks.push(tokio::spawn(async move {
            let mut body = response.into_body();
            while let Some(Ok(frame)) = body.frame().await {
                let lines = frame.data_ref().map_or(0, |data| data.iter().filter(|byte| **byte == b'\n').count());
                if seen.fetch_add(lines as u64, Ordering::Relaxed) + lines as u64 >= all {
                    done.notify_one();
                }
            }
        }));
    }
    let start = Instant::now();
    fill(clients, "watched", WATCHED_CREATES).await?;
    let _too_slow = tokio::time::timeout(WATCH_LIMIT, done.notified()).await;
    report.add(Metric::WatchSeconds, server.kind, start.elapsed().as_secs_f64());
    let share = seen.load(Ordering::Relaxed) as f64 / all as f64;
    report.add(Metric::WatchPercent, server.kind, share * 100.0);
    for task in tasks {
        task.abort();
    }
    Ok(())
}

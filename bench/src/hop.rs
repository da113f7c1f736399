//! What a way through the hub costs: one tunnel hop against a plain TLS connection, kubectl's whole way against the direct
//! one, and the memory of one agent.

use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use api::kubernetes::{CONFIG_MAPS, NAMESPACES};
use clock::Env;
use futures::future::BoxFuture;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kubeio::{CancellationToken, Client};
use rcgen::{CertificateParams, KeyPair};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tunnel::client::{self, ClientConfig, ClientState};
use tunnel::{BoxIo, Connector as _, DialRefusal, Dialer, Limits, Registry, TlsConnector};

use crate::figures::{Figures, Goal, quantile};
use crate::servers::{self, Process};
use crate::tunnels::bootstrap_token;

/// How long each stream is measured.
const PHASE: Duration = Duration::from_secs(5);
/// Small requests that are timed.
const REQUESTS: usize = 2_000;
/// ConfigMaps of 1 KiB in the list that is read.
const LISTED: usize = 2_000;
const NAMESPACE: &str = "hop";
const HUB: &str = "127.0.0.1:17193";
const CHILD: &str = "127.0.0.1:17194";

/// Measures all of it.
pub(crate) async fn run(scratch: &Path) -> anyhow::Result<()> {
    let mut figures = Figures::default();
    one_hop(&mut figures).await?;
    whole_way(scratch, &mut figures).await?;
    figures.print();
    Ok(())
}

/// Keys for `localhost`, made for this run.
struct Tls {
    server: Arc<rustls::ServerConfig>,
    client: Arc<rustls::ClientConfig>,
}

impl Tls {
    fn new() -> anyhow::Result<Self> {
        let key = KeyPair::generate()?;
        let certificate = CertificateParams::new(vec!["localhost".to_owned()])?.self_signed(&key)?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut roots = rustls::RootCertStore::empty();
        roots.add(certificate.der().clone())?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let server = rustls::ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)?;
        let client = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self {
            server: Arc::new(server),
            client: Arc::new(client),
        })
    }
}

/// Reads for [`PHASE`]; MB a second.
async fn rate(mut stream: impl AsyncRead + Unpin) -> anyhow::Result<f64> {
    let mut part = vec![0; 256 << 10];
    let (start, mut bytes) = (Instant::now(), 0_u64);
    while start.elapsed() < PHASE {
        let size = stream.read(&mut part).await?;
        if size == 0 {
            bail!("the stream ended");
        }
        bytes += size as u64;
    }
    Ok(bytes as f64 / 1e6 / start.elapsed().as_secs_f64())
}

/// Sends for ever.
async fn pour(mut io: impl tokio::io::AsyncWrite + Unpin) -> io::Result<()> {
    let part = vec![7; 256 << 10];
    loop {
        io.write_all(&part).await?;
    }
}

/// One stream over TLS, and one over a tunnel over the same TLS, whose far end is a pipe.
async fn one_hop(figures: &mut Figures) -> anyhow::Result<()> {
    let tls = Tls::new()?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    let acceptor = TlsAcceptor::from(tls.server.clone());
    let plain = tokio::spawn({
        let acceptor = acceptor.clone();
        async move {
            let (tcp, _) = listener.accept().await?;
            tcp.set_nodelay(true)?;
            pour(acceptor.accept(tcp).await?).await
        }
    });
    let connector = TlsConnector::new(tls.client.clone());
    let stream = connector.connect("localhost", port, true).await?;
    let direct = rate(stream).await?;
    plain.abort();
    figures.add("one TLS connection, MB/s", direct, Goal::None);

    let registry = Registry::new(Env::system(), Limits::default());
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    tokio::spawn(serve_tunnels(listener, acceptor, registry.clone()));
    let id = "00000000-0000-4000-8000-000000000001";
    let config = ClientConfig::new(format!("wss://localhost:{port}/{id}"), id);
    let mut state = config.state.subscribe();
    let stop = CancellationToken::new();
    let (connector, dialer) = (Arc::new(connector), Arc::new(Source));
    tokio::spawn(client::run(
        config,
        connector,
        dialer,
        Env::system(),
        stop.clone(),
    ));
    let connected = state.wait_for(|state| *state == ClientState::Connected);
    tokio::time::timeout(PHASE, connected)
        .await
        .context("the tunnel does not come up")??;
    while !registry.is_connected(id) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let stream = registry.dial(id, "tcp", "source:1")?;
    let through = rate(stream).await?;
    stop.cancel();
    figures.add("one stream through a tunnel, MB/s", through, Goal::None);
    figures.add(
        "  of the TLS connection's, %",
        through / direct * 100.0,
        Goal::AtLeast(80.0),
    );
    Ok(())
}

async fn serve_tunnels(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    registry: Registry,
) -> anyhow::Result<()> {
    loop {
        let (tcp, _) = listener.accept().await?;
        tcp.set_nodelay(true)?;
        let stream = acceptor.accept(tcp).await?;
        let registry = registry.clone();
        let service = service_fn(move |mut request: http::Request<Incoming>| {
            let registry = registry.clone();
            async move {
                let response = tunnel::switch_protocols(request.headers())?;
                let id = request.uri().path().trim_start_matches('/').to_owned();
                tokio::spawn(async move {
                    if let Ok(upgraded) = hyper::upgrade::on(&mut request).await {
                        registry.serve(&id, TokioIo::new(upgraded)).await;
                    }
                });
                Ok::<_, tunnel::HandshakeError>(response.map(|()| String::new()))
            }
        });
        let connection = hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        tokio::spawn(connection);
    }
}

/// Whoever dials it is poured at.
#[derive(Debug)]
struct Source;

impl Dialer for Source {
    fn dial(&self, _: &str, _: &str) -> BoxFuture<'static, Result<BoxIo, DialRefusal>> {
        let (near, far) = tokio::io::duplex(1 << 20);
        tokio::spawn(pour(far));
        Box::pin(async move { Ok(Box::new(near) as BoxIo) })
    }
}

/// A hub, a child and its agent, each a process; the same requests straight and through the hub.
async fn whole_way(scratch: &Path, figures: &mut Figures) -> anyhow::Result<()> {
    let plane = |name: &str, listen: &str| -> anyhow::Result<(Process, std::path::PathBuf)> {
        let data = scratch.join(name);
        let mut command = Command::new(servers::tombolo()?);
        command
            .args(["up", "--members", "0", "--listen", listen, "--data-dir"])
            .arg(&data);
        Ok((Process::start(&mut command, scratch)?, data.join("kubeconfig")))
    };
    let (_hub_process, hub_kubeconfig) = plane("hub", HUB)?;
    let (_child_process, child_kubeconfig) = plane("child", CHILD)?;
    let hub = crate::tunnels::await_ready(&hub_kubeconfig).await?;
    let child = crate::tunnels::await_ready(&child_kubeconfig).await?;
    for object in api::install::child(&api::install::ChildOptions::default()) {
        let resource = api::kubernetes::ALL
            .iter()
            .find(|it| it.kind == machinery::meta::kind(&object))
            .context("a kind that is known")?;
        let home = Some(machinery::meta::namespace(&object)).filter(|it| !it.is_empty());
        match child.create(resource, home, &object).await {
            Err(error) if !error.is_already_exists() => return Err(error.into()),
            Ok(_) | Err(_) => {}
        }
    }
    let token = bootstrap_token(&hub).await?;
    crate::tunnels::write_authority(&hub_kubeconfig, &scratch.join("authority.pem"))?;
    let mut command = Command::new(servers::tombolo()?);
    command
        .args(["agent", "--cluster-reg-name", "child", "--secure-port", "0"])
        .args(["--cluster-reg-parent-url", &format!("https://{HUB}")])
        .args(["--cluster-reg-token", &token])
        .arg("--cluster-reg-parent-ca")
        .arg(scratch.join("authority.pem"))
        .arg("--kubeconfig")
        .arg(&child_kubeconfig);
    let agent = Process::start(&mut command, scratch)?;
    let through = through_hub(scratch, &hub_kubeconfig).await?;

    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    child.create(&NAMESPACES, None, &namespace).await?;
    for index in 0..LISTED {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("listed-{index}"), "namespace": NAMESPACE},
            "data": {"fill": "x".repeat(1_000)},
        });
        child.create(&CONFIG_MAPS, Some(NAMESPACE), &object).await?;
    }
    let (direct, indirect) = (lists(&child).await?, lists(&through).await?);
    figures.add(
        "lists of 2.6 MB straight from the child, MB/s",
        direct,
        Goal::None,
    );
    figures.add("  through hub and tunnel, MB/s", indirect, Goal::None);
    figures.add(
        "  of the straight way's, %",
        indirect / direct * 100.0,
        Goal::AtLeast(35.0),
    );
    let (direct, indirect) = (gets(&child).await?, gets(&through).await?);
    figures.add("a get straight from the child, ms", direct, Goal::None);
    figures.add(
        "  added by hub and tunnel, ms",
        indirect - direct,
        Goal::AtMost(0.5),
    );
    figures.add(
        "one agent's memory, MB",
        agent.memory_kib("VmRSS")? * 1_024.0 / 1e6,
        Goal::AtMost(20.0),
    );
    Ok(())
}

/// A client of the child by way of the hub, as `tombolo kubeconfig` makes it, as soon as it works.
async fn through_hub(scratch: &Path, hub: &Path) -> anyhow::Result<Client> {
    let file = scratch.join("through.kubeconfig");
    let start = Instant::now();
    loop {
        let output = Command::new(servers::tombolo()?)
            .args(["kubeconfig", "child", "--kubeconfig"])
            .arg(hub)
            .output()?;
        if output.status.success() {
            std::fs::write(&file, &output.stdout)?;
            let client = Client::from_kubeconfig_file(&file).await?;
            if client.get_path("/version").await.is_ok() {
                return Ok(client);
            }
        }
        if start.elapsed() > Duration::from_secs(60) {
            bail!(
                "the child cannot be reached: {}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn lists(client: &Client) -> anyhow::Result<f64> {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
    let read = || async { read(client, &path).await };
    read().await?;
    let (start, mut bytes) = (Instant::now(), 0);
    while start.elapsed() < PHASE {
        bytes += read().await?;
    }
    Ok(bytes as f64 / 1e6 / start.elapsed().as_secs_f64())
}

/// The median of many, in ms.
async fn gets(client: &Client) -> anyhow::Result<f64> {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps/listed-0");
    let mut moments = Vec::with_capacity(REQUESTS);
    for _ in 0..REQUESTS {
        let start = Instant::now();
        read(client, &path).await?;
        moments.push(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(quantile(&moments, 0.5))
}

/// The size of an answer.
async fn read(client: &Client, path: &str) -> anyhow::Result<usize> {
    let request = http::Request::get(path)
        .header(http::header::ACCEPT_ENCODING, "identity")
        .body(Vec::new())?;
    let answer = client.request(request).await?;
    anyhow::ensure!(
        answer.status().is_success(),
        "{path}: {}: {}",
        answer.status(),
        String::from_utf8_lossy(answer.body())
    );
    Ok(answer.body().len())
}

//! A registry and a client over in-memory pipes: streams, refusals, take-over, reconnects and death.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clock::Env;
use futures::future::BoxFuture;
use http::{HeaderMap, HeaderName, HeaderValue};
use runtime::CancellationToken;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::Notify;
use tunnel::client::{self, ClientConfig, ClientState};
use tunnel::{AllowList, BoxIo, Connector, DialFailure, DialRefusal, Dialer, Limits, Registry, SessionEnd};

const CLUSTER: &str = "00000000-0000-4000-8000-000000000001";

/// A hub that answers on pipes.
#[derive(Clone)]
struct Hub {
    registry: Registry,
    ends: Arc<Mutex<Vec<SessionEnd>>>,
    /// Attempts that are refused before one is let in.
    refusals: Arc<Mutex<VecDeque<&'static str>>>,
    seen: Arc<Mutex<Vec<String>>>,
    /// When each attempt came.
    asked: Arc<Mutex<Vec<tokio::time::Instant>>>,
    /// What is sent at once when one is let in, before anything that the registry has to say.
    greeting: Vec<u8>,
    /// When notified, the pipes stay open and carry nothing more.
    stall: Arc<Notify>,
    /// The pipes carry [`SLOW`] bytes a second each way.
    is_slow: bool,
}

/// What a slow link carries in a second, in bytes.
const SLOW: usize = 2_000;

/// Carries bytes one way, slowly.
async fn crawl(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) -> io::Result<()> {
    let mut part = [0; SLOW / 10];
    loop {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let size = from.read(&mut part).await?;
        to.write_all(&part[..size]).await?;
    }
}

impl Hub {
    fn new() -> Self {
        Self {
            registry: Registry::new(Env::system(), Limits::default()),
            ends: Arc::default(),
            refusals: Arc::default(),
            seen: Arc::default(),
            asked: Arc::default(),
            greeting: Vec::new(),
            stall: Arc::default(),
            is_slow: false,
        }
    }

    async fn answer(self, mut io: DuplexStream) {
        let head = read_head(&mut io).await;
        let headers = parse_headers(&head);
        let token = headers
            .get("authorization")
            .map_or("none", |value| value.to_str().expect("text"));
        self.seen.lock().expect("no panic").push(token.to_owned());
        let now = tokio::time::Instant::now();
        self.asked.lock().expect("no panic").push(now);
        let refusal = self.refusals.lock().expect("no panic").pop_front();
        if let Some(refusal) = refusal {
            io.write_all(refusal.as_bytes())
                .await
                .expect("a client that reads");
            return;
        }
        let response = tunnel::switch_protocols(&headers).expect("a WebSocket handshake");
        let mut text = "HTTP/1.1 101 Switching Protocols\r\n".to_owned();
        for (name, value) in response.headers() {
            text.push_str(&format!("{name}: {}\r\n", value.to_str().expect("text")));
        }
        text.push_str("\r\n");
        io.write_all(text.as_bytes()).await.expect("a client that reads");
        io.write_all(&self.greeting).await.expect("a client that reads");
        // A pipe in between that a test can stall.
        let (mut near, far) = duplex(64 << 10);
        let (stall, is_slow) = (Arc::clone(&self.stall), self.is_slow);
        let carry = async move {
            let carried = async {
                if is_slow {
                    let (near, io) = (tokio::io::split(&mut near), tokio::io::split(&mut io));
                    tokio::try_join!(crawl(near.0, io.1), crawl(io.0, near.1)).map(drop)
                } else {
                    tokio::io::copy_bidirectional(&mut near, &mut io).await.map(drop)
                }
            };
            tokio::select! {
                biased;
                () = stall.notified() => std::future::pending::<()>().await,
                done = carried => drop(done),
            }
        };
        tokio::spawn(carry);
        let end = self.registry.serve(CLUSTER, far).await;
        self.ends.lock().expect("no panic").push(end);
    }
}

async fn read_head(io: &mut DuplexStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(io.read_u8().await.expect("a request"));
    }
    String::from_utf8(head).expect("text")
}

fn parse_headers(head: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in head.lines().filter_map(|line| line.split_once(": ")) {
        let name = HeaderName::try_from(name).expect("a header name");
        headers.append(name, HeaderValue::from_str(value).expect("a header value"));
    }
    headers
}

impl Connector for Hub {
    fn connect(&self, host: &str, port: u16, tls: bool) -> BoxFuture<'static, io::Result<BoxIo>> {
        assert_eq!((host, port, tls), ("hub.example", 6443, true));
        let hub = self.clone();
        Box::pin(async move {
            let (near, far) = duplex(64 << 10);
            tokio::spawn(hub.answer(far));
            Ok(Box::new(near) as BoxIo)
        })
    }
}

/// Targets of the cluster: `echo:1` sends everything back, `shout:1` says hello and closes, `hang:1` never reads.
#[derive(Clone, Copy)]
struct Targets;

impl Dialer for Targets {
    fn dial(&self, _: &str, address: &str) -> BoxFuture<'static, Result<BoxIo, DialRefusal>> {
        let address = address.to_owned();
        Box::pin(async move {
            let (near, mut far) = duplex(16 << 10);
            match address.as_str() {
                "echo:1" => {
                    tokio::spawn(async move {
                        let (mut reader, mut writer) = tokio::io::split(far);
                        tokio::io::copy(&mut reader, &mut writer).await
                    });
                }
                "shout:1" => {
                    tokio::spawn(async move { far.write_all(b"hello").await });
                }
                "hang:1" => std::mem::forget(far),
                _ => {
                    return Err(DialRefusal::Failed {
                        address,
                        source: io::ErrorKind::ConnectionRefused.into(),
                    });
                }
            }
            Ok(Box::new(near) as BoxIo)
        })
    }
}

struct Agent {
    state: tokio::sync::watch::Receiver<ClientState>,
    shutdown: CancellationToken,
}

fn start_agent(hub: &Hub) -> Agent {
    let mut config = ClientConfig::new(
        format!("https://hub.example:6443/apis/proxies.clusternet.io/v1alpha1/sockets/{CLUSTER}"),
        CLUSTER,
    );
    let attempt = Arc::new(Mutex::new(0));
    config.headers = Arc::new(move || {
        let attempt = Arc::clone(&attempt);
        Box::pin(async move {
            let mut number = attempt.lock().expect("no panic");
            *number += 1;
            let value = HeaderValue::try_from(format!("Bearer t{number}"))?;
            Ok([(http::header::AUTHORIZATION, value)].into_iter().collect())
        })
    });
    let state = config.state.subscribe();
    let shutdown = CancellationToken::new();
    let targets = ["echo:1", "shout:1", "hang:1", "closed:1"].map(str::to_owned);
    let dialer = Arc::new(AllowList::new(targets, Targets));
    let run = client::run(
        config,
        Arc::new(hub.clone()),
        dialer,
        Env::system(),
        shutdown.clone(),
    );
    tokio::spawn(async move { run.await.expect("a good URL") });
    Agent { state, shutdown }
}

impl Agent {
    async fn connected(&mut self, hub: &Hub) {
        self.state
            .wait_for(|state| *state == ClientState::Connected)
            .await
            .expect("the agent runs");
        while !hub.registry.is_connected(CLUSTER) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    async fn disconnected(&mut self) -> String {
        let state = self
            .state
            .wait_for(|state| matches!(state, ClientState::Disconnected(Some(_))))
            .await;
        match &*state.expect("the agent runs") {
            ClientState::Disconnected(Some(reason)) => reason.clone(),
            ClientState::Disconnected(None) | ClientState::Connected => unreachable!("waited for"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn carries_streams_both_ways_under_back_pressure() {
    let hub = Hub::new();
    let mut agent = start_agent(&hub);
    agent.connected(&hub).await;
    let stream = hub.registry.dial(CLUSTER, "tcp", "echo:1").expect("a tunnel");
    let (mut reader, mut writer) = tokio::io::split(stream);
    let sent: Vec<u8> = (0..8_000_000_u32).map(|n| (n ^ (n >> 9)) as u8).collect();
    let expected = sent.clone();
    let writing = tokio::spawn(async move { writer.write_all(&sent).await.map(|()| writer) });
    let mut read = vec![0; expected.len()];
    reader.read_exact(&mut read).await.expect("all of it");
    assert!(read == expected);
    let mut writer = writing.await.expect("no panic").expect("an open stream");
    let stats = hub.registry.connected()[0].stats;
    assert!(stats.inbox_bytes + stats.outbox_bytes == 0, "{stats:?}");
    writer.shutdown().await.expect("an open stream");
    let mut rest = Vec::new();
    reader.read_to_end(&mut rest).await.expect("an orderly end");
    assert!(rest.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_far_side_closing_is_an_orderly_end() {
    let hub = Hub::new();
    let mut agent = start_agent(&hub);
    agent.connected(&hub).await;
    let mut stream = hub.registry.dial(CLUSTER, "tcp", "shout:1").expect("a tunnel");
    let mut read = String::new();
    stream.read_to_string(&mut read).await.expect("an orderly end");
    assert_eq!(read, "hello");
}

#[tokio::test(start_paused = true)]
async fn a_refused_or_failed_dial_says_why() {
    let hub = Hub::new();
    let mut agent = start_agent(&hub);
    agent.connected(&hub).await;
    for (address, text) in [
        ("metadata:80", "metadata:80 is not on the agent's allow list"),
        ("closed:1", "dial closed:1: connection refused"),
    ] {
        let mut stream = hub.registry.dial(CLUSTER, "tcp", address).expect("a tunnel");
        let error = stream.read_u8().await.expect_err("a refusal");
        assert_eq!(error.to_string(), text);
    }
    let error = hub
        .registry
        .dial("ghost", "tcp", "echo:1")
        .expect_err("no such cluster");
    assert_eq!(
        error,
        DialFailure::NotConnected {
            cluster_id: "ghost".to_owned()
        }
    );
    assert_eq!(hub.registry.metrics().dials_total, 2);
    assert_eq!(hub.registry.metrics().dial_failures_total, 1);
}

#[tokio::test(start_paused = true)]
async fn a_stuck_stream_does_not_hold_up_the_others() {
    let hub = Hub::new();
    let mut agent = start_agent(&hub);
    agent.connected(&hub).await;
    let mut stuck = hub.registry.dial(CLUSTER, "tcp", "hang:1").expect("a tunnel");
    let filling = tokio::spawn(async move { stuck.write_all(&vec![0; 16 << 20]).await });
    let mut stream = hub.registry.dial(CLUSTER, "tcp", "echo:1").expect("a tunnel");
    for _ in 0..100 {
        stream.write_all(&[7; 10_000]).await.expect("an open stream");
        stream.read_exact(&mut [0; 10_000]).await.expect("an open stream");
    }
    assert!(!filling.is_finished());
    filling.abort();
}

#[tokio::test(start_paused = true)]
async fn the_newest_session_of_a_cluster_wins() {
    let hub = Hub::new();
    let mut first = start_agent(&hub);
    first.connected(&hub).await;
    let mut stream = hub.registry.dial(CLUSTER, "tcp", "echo:1").expect("a tunnel");
    let mut second = start_agent(&hub);
    second.connected(&hub).await;
    first.disconnected().await;
    first.shutdown.cancel();
    let error = stream.read_u8().await.expect_err("its tunnel is gone");
    assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted);
    assert_eq!(
        error.to_string(),
        "the tunnel is disconnected: a newer connection of the same cluster took over"
    );
    let mut stream = hub
        .registry
        .dial(CLUSTER, "tcp", "shout:1")
        .expect("the newer tunnel");
    assert_eq!(stream.read_u8().await.expect("bytes"), b'h');
    let metrics = hub.registry.metrics();
    assert_eq!((metrics.sessions, metrics.replaced_total), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn reconnects_with_a_fresh_credential_until_the_hub_lets_it_in() {
    let hub = Hub::new();
    for _ in 0..5 {
        hub.refusals
            .lock()
            .expect("no panic")
            .push_back("HTTP/1.1 403 Forbidden\r\nContent-Length: 9\r\n\r\nno rights");
    }
    let mut agent = start_agent(&hub);
    let reason = agent.disconnected().await;
    assert!(reason.contains("HTTP 403"), "{reason}");
    agent.connected(&hub).await;
    let seen: Vec<String> = (1..=6).map(|number| format!("Bearer t{number}")).collect();
    assert_eq!(*hub.seen.lock().expect("no panic"), seen);
    hub.registry.disconnect(CLUSTER);
    agent.disconnected().await;
    agent.connected(&hub).await;
}

/// The times between attempts.
fn waits(hub: &Hub) -> Vec<Duration> {
    let asked = hub.asked.lock().expect("no panic");
    asked.windows(2).map(|two| two[1] - two[0]).collect()
}

#[tokio::test(start_paused = true)]
async fn asks_for_ever_but_never_often_and_never_in_step() {
    const HOURS: usize = 1_000;
    let hub = Hub::new();
    let refusal = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";
    hub.refusals
        .lock()
        .expect("no panic")
        .extend(std::iter::repeat_n(refusal, HOURS));
    let mut agent = start_agent(&hub);
    agent.connected(&hub).await;
    let waits_were = waits(&hub);
    assert_eq!(waits_were.len(), HOURS);
    // What the clock rounds up to.
    let tick = Duration::from_millis(2);
    let mut whole = Duration::from_millis(500);
    for wait in &waits_were {
        assert!(
            *wait >= whole / 2 && *wait <= whole + tick,
            "{wait:?} of {whole:?}"
        );
        whole = (whole * 2).min(Duration::from_secs(30));
    }
    let settled: std::collections::BTreeSet<_> = waits_were[10..].iter().collect();
    assert!(settled.len() > 100, "{} different waits", settled.len());

    // One that was good for a minute is asked again at once when it goes; one that goes at once is not.
    for (stays, soon) in [(Duration::from_secs(61), true), (Duration::from_secs(1), false)] {
        tokio::time::sleep(stays).await;
        let lost = tokio::time::Instant::now();
        hub.registry.disconnect(CLUSTER);
        agent.disconnected().await;
        agent.connected(&hub).await;
        let again = *hub.asked.lock().expect("no panic").last().expect("an attempt");
        let wait = again - lost;
        let first = Duration::from_millis(500);
        let as_it_should = if soon { wait <= first + tick } else { wait >= first };
        assert!(as_it_should, "{wait:?} after {stays:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn both_ends_notice_a_dead_link_in_seconds() {
    let hub = Hub::new();
    let mut agent = start_agent(&hub);
    agent.connected(&hub).await;
    let mut stream = hub.registry.dial(CLUSTER, "tcp", "echo:1").expect("a tunnel");
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert!(hub.registry.is_connected(CLUSTER), "pings keep an idle tunnel");
    let start = tokio::time::Instant::now();
    hub.stall.notify_waiters();
    let (reason, error) = tokio::join!(agent.disconnected(), stream.read_u8());
    assert!(start.elapsed() <= Duration::from_secs(5), "{:?}", start.elapsed());
    assert_eq!(reason, "the peer has been silent for 5 s");
    let error = error.expect_err("its tunnel is gone");
    assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted);
    agent.connected(&hub).await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_link_carries_much_and_its_end_is_noticed_as_soon() {
    const SIZE: usize = 300_000;
    let hub = Hub {
        is_slow: true,
        ..Hub::new()
    };
    let mut agent = start_agent(&hub);
    agent.connected(&hub).await;
    let start = tokio::time::Instant::now();
    let stream = hub.registry.dial(CLUSTER, "tcp", "echo:1").expect("a tunnel");
    let (mut reader, mut writer) = tokio::io::split(stream);
    // The last third stays in the link.
    let writing = tokio::spawn(async move { writer.write_all(&[7; SIZE * 3 / 2]).await.map(|()| writer) });
    let mut read = vec![0; SIZE];
    reader.read_exact(&mut read).await.expect("a tunnel that lives");
    assert!(start.elapsed() >= Duration::from_secs((SIZE / SLOW) as u64));

    let start = tokio::time::Instant::now();
    hub.stall.notify_waiters();
    let (reason, error) = tokio::join!(agent.disconnected(), reader.read_to_end(&mut read));
    assert!(start.elapsed() <= Duration::from_secs(5), "{:?}", start.elapsed());
    assert_eq!(reason, "the peer has been silent for 5 s");
    let error = error.expect_err("its tunnel is gone");
    assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted);
    drop(writing.await);
}

/// The same from a hub that means ill, to an agent.
#[tokio::test(start_paused = true)]
async fn d11_a_frame_of_the_hub_that_claims_two_gigabytes_is_refused() {
    let mut greeting = vec![0x82, 0x7f];
    greeting.extend_from_slice(&(1_u64 << 31).to_be_bytes());
    greeting.extend_from_slice(&[0; 10]);
    let mut hub = Hub {
        greeting,
        ..Hub::new()
    };
    let mut agent = start_agent(&hub);
    let reason = agent.disconnected().await;
    assert!(reason.contains("too long"), "{reason}");
    hub.greeting.clear();
    let mut other = start_agent(&hub);
    other.connected(&hub).await;
}

/// D11 (b): a frame whose header claims 2^31 bytes and sends 10 is refused from its header.
#[tokio::test(start_paused = true)]
async fn d11_a_frame_that_claims_two_gigabytes_closes_the_tunnel() {
    let registry = Registry::new(Env::system(), Limits::default());
    let (mut near, far) = duplex(1 << 16);
    let serving = tokio::spawn(async move { registry.serve(CLUSTER, far).await });
    let mut frame = vec![0x82, 0xff];
    frame.extend_from_slice(&(1_u64 << 31).to_be_bytes());
    frame.extend_from_slice(&[0; 14]);
    near.write_all(&frame).await.expect("an open pipe");
    let end = serving.await.expect("no panic");
    assert!(
        matches!(&end, SessionEnd::Socket(text) if text.contains("too long")),
        "{end}"
    );
}

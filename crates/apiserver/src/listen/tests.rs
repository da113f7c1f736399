use std::sync::atomic::AtomicUsize;

use clock::Env;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::Notify;
use tokio_rustls::TlsConnector;

use super::*;
use crate::pki::{Identity, Pki, ServingCertificate, client_config, server_config};

#[derive(Default)]
struct Echo {
    answered: AtomicUsize,
    /// Requests for `/slow` wait for this.
    gate: Notify,
}

impl Handle for Echo {
    fn handle(self: Arc<Self>, request: Request<Body>, peer: Peer) -> BoxFuture<'static, Response<Body>> {
        Box::pin(async move {
            if request.uri().path() == "/slow" {
                self.gate.notified().await;
            }
            self.answered.fetch_add(1, Ordering::SeqCst);
            Response::new(Body::from(format!(
                "{} {}",
                request.uri().path(),
                peer.certificates.len()
            )))
        })
    }
}

struct World {
    address: SocketAddr,
    pki: Pki,
    shutdown: CancellationToken,
    served: tokio::task::JoinHandle<()>,
    handler: Arc<Echo>,
}

async fn world(limits: Limits) -> World {
    let env = Env::system();
    let pki = Pki::ephemeral(&[], &env).unwrap();
    let certificate = ServingCertificate::new(&pki.serving).unwrap();
    let tls = server_config(certificate, &[pki.authority.certificate_pem()]).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = CancellationToken::new();
    let handler = Arc::new(Echo::default());
    let served = tokio::spawn(serve(listener, tls, handler.clone(), limits, shutdown.clone()));
    World {
        address,
        pki,
        shutdown,
        served,
        handler,
    }
}

impl World {
    async fn connect(
        &self,
        identity: Option<&Identity>,
        protocol: &str,
    ) -> tokio_rustls::client::TlsStream<TcpStream> {
        let mut config = client_config(self.pki.authority.certificate_pem(), identity).unwrap();
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await
            .unwrap()
    }

    async fn get(&self, identity: Option<&Identity>, path: &str) -> String {
        let mut stream = self.connect(identity, "http/1.1").await;
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer.rsplit("\r\n").next().unwrap().to_owned()
    }
}

#[tokio::test]
async fn hands_over_requests_with_the_certificates_of_the_peer() {
    let world = world(Limits::default()).await;
    assert_eq!(world.get(None, "/a").await, "/a 0");
    assert_eq!(world.get(Some(&world.pki.admin), "/b").await, "/b 1");
    let stranger = Pki::ephemeral(&[], &Env::system()).unwrap();
    assert_eq!(
        world.get(Some(&stranger.admin), "/c").await,
        "/c 1",
        "whom to trust is decided later"
    );
    let stream = world.connect(Some(&world.pki.admin), "h2").await;
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    tokio::spawn(connection);
    let request = Request::get("https://localhost/d").body(Body::empty()).unwrap();
    let answer = sender.send_request(request).await.unwrap();
    let body = Body::new(answer.into_body()).read(1_000).await.unwrap();
    assert_eq!(&body[..], b"/d 1");
}

#[tokio::test]
async fn many_unfinished_handshakes_hold_little_and_keep_nobody_out() {
    let world = world(Limits {
        handshakes: 16,
        ..Limits::default()
    })
    .await;
    let mut strangers = Vec::new();
    for _ in 0..300 {
        strangers.push(TcpStream::connect(world.address).await.unwrap());
    }
    assert_eq!(world.get(None, "/a").await, "/a 0");
    // The first ones were ended to make room.
    let mut byte = [0];
    assert_eq!(strangers[0].read(&mut byte).await.unwrap_or(0), 0);
}

#[tokio::test]
async fn a_handshake_and_headers_that_trickle_are_ended() {
    let world = world(Limits {
        handshake_timeout: Duration::from_millis(50),
        header_timeout: Duration::from_millis(50),
        ..Limits::default()
    })
    .await;
    let mut silent = TcpStream::connect(world.address).await.unwrap();
    let mut byte = [0];
    assert_eq!(silent.read(&mut byte).await.unwrap_or(0), 0);
    let mut slow = world.connect(None, "http/1.1").await;
    slow.write_all(b"GET / HTTP/1.1\r\nX-One: ").await.unwrap();
    let mut answer = Vec::new();
    // Closed with or without a 408; what counts is that it ends.
    let _ended = slow.read_to_end(&mut answer).await;
    assert_eq!(world.handler.answered.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn an_answer_may_take_longer_than_headers_may() {
    let world = world(Limits {
        header_timeout: Duration::from_millis(50),
        ..Limits::default()
    })
    .await;
    let mut waiting = world.connect(None, "http/1.1").await;
    waiting
        .write_all(b"GET /slow HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .await
        .unwrap();
    for _ in 0..3 {
        // Each of these is closed after the timeout: so much time passes.
        let mut idle = world.connect(None, "http/1.1").await;
        let _ended = idle.read_to_end(&mut Vec::new()).await;
    }
    world.handler.gate.notify_one();
    let mut answer = String::new();
    waiting.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[tokio::test]
async fn headers_beyond_the_limit_are_refused() {
    let world = world(Limits {
        header_bytes: 16 * 1024,
        ..Limits::default()
    })
    .await;
    let mut stream = world.connect(None, "http/1.1").await;
    let token = "x".repeat(1 << 20);
    let request = format!("GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n");
    // The server may close before it has read everything.
    let _sent = stream.write_all(request.as_bytes()).await;
    let mut answer = Vec::new();
    let _ended = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8_lossy(&answer);
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 431"),
        "{answer}"
    );
    assert_eq!(world.handler.answered.load(Ordering::SeqCst), 0);
    assert_eq!(world.get(None, "/a").await, "/a 0");
}

#[tokio::test]
async fn lets_running_answers_end_and_then_no_longer() {
    let world = world(Limits {
        drain: Duration::from_millis(200),
        ..Limits::default()
    })
    .await;
    let mut running = world.connect(None, "http/1.1").await;
    running
        .write_all(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .unwrap();
    let mut stuck = world.connect(None, "http/1.1").await;
    stuck
        .write_all(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .unwrap();
    // A further request is answered, so the two are being handled.
    while world.handler.answered.load(Ordering::SeqCst) < 1 {
        assert_eq!(world.get(None, "/a").await, "/a 0");
    }
    world.shutdown.cancel();
    world.served.await.unwrap();
    let mut answer = Vec::new();
    let _ended = stuck.read_to_end(&mut answer).await;
    assert!(answer.is_empty());
    assert!(
        TcpStream::connect(world.address).await.is_err(),
        "nobody listens any more"
    );
}

/// An answer that comes before its request's body: the connection goes on behind the body, or says that it ends.
#[tokio::test]
async fn a_body_that_nobody_read_is_taken_in_or_ends_the_connection() {
    let world = world(Limits {
        body_rest: Duration::from_millis(100),
        ..Limits::default()
    })
    .await;
    let large = 256 * 1_024 + 1;
    let long = "x".repeat(large);
    for (headers, body, goes_on) in [
        ("Content-Length: 5", Some("hello"), true),
        ("Content-Length: 0", Some(""), true),
        (
            "Transfer-Encoding: chunked",
            Some("5\r\nhello\r\n0\r\n\r\n"),
            true,
        ),
        ("Content-Length: 262144", Some(&long[1..]), true),
        // Too much, not wanted, or never sent.
        ("Content-Length: 262145", None, false),
        ("Content-Length: 5\r\nExpect: 100-continue", None, false),
        ("Content-Length: 5", None, false),
        ("Transfer-Encoding: chunked", None, false),
    ] {
        let mut stream = world.connect(None, "http/1.1").await;
        let answered = world.handler.answered.load(Ordering::SeqCst);
        let head = format!("POST /a HTTP/1.1\r\nHost: x\r\n{headers}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        while world.handler.answered.load(Ordering::SeqCst) == answered {
            tokio::task::yield_now().await;
        }
        if let Some(body) = body {
            stream.write_all(body.as_bytes()).await.unwrap();
            let next = "GET /b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
            stream.write_all(next.as_bytes()).await.unwrap();
        }
        let mut answers = String::new();
        stream.read_to_string(&mut answers).await.unwrap();
        let (first, second) = answers.split_once("/a 0").unwrap();
        assert!(first.starts_with("HTTP/1.1 200 "), "{headers}: {answers}");
        assert_eq!(
            first.contains("connection: close"),
            !goes_on,
            "{headers}: {answers}"
        );
        assert_eq!(second.ends_with("/b 0"), goes_on, "{headers}: {answers}");
    }
}

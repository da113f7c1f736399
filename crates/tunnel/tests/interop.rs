//! Against the original tunnel library, both ways (`tests/interop` holds the other end, a Go program).
//!
//! Skipped, loudly, where there is no Go; a failure instead where `CI` is set.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use clock::Env;
use http::{HeaderMap, HeaderName, HeaderValue};
use runtime::CancellationToken;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tunnel::client::{self, ClientConfig, ClientState};
use tunnel::{AllowList, Limits, Registry, TcpDialer, TlsConnector};

/// A child process that dies with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Builds the Go program, or says that there is no Go.
#[expect(clippy::print_stderr, reason = "a skipped test has to say so")]
fn build() -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop");
    // One file per process: tests of one run share it, other runs do not write to it while it runs.
    let binary =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("tunnel-interop-{}", std::process::id()));
    static BUILT: std::sync::Once = std::sync::Once::new();
    if Command::new("go").arg("version").output().is_err() {
        assert!(
            std::env::var_os("CI").is_none(),
            "the tests against the original tunnel library need Go"
        );
        eprintln!("SKIPPED: the tests against the original tunnel library need Go, which is not installed");
        return None;
    }
    BUILT.call_once(|| {
        let done = Command::new("go")
            .args(["build", "-o"])
            .arg(&binary)
            .arg(".")
            .current_dir(source)
            .status()
            .expect("Go starts");
        assert!(done.success(), "the Go program does not build");
    });
    Some(binary)
}

async fn echo() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound").to_string();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut reader, mut writer) = socket.split();
                tokio::io::copy(&mut reader, &mut writer).await
            });
        }
    });
    address
}

/// More than what either end buffers.
const BULK: usize = 16 << 20;

/// Takes (`u`) or gives (`d`) many bytes, one direction at a time: both at once lock up the original, whose one flag
/// for "paused" and "pausing" blocks a writer because its own reader has paused the peer.
async fn bulk() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound").to_string();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            tokio::spawn(async move {
                if socket.read_u8().await? == b'u' {
                    socket.read_exact(&mut vec![0; BULK]).await?;
                    socket.write_all(b".").await
                } else {
                    socket.write_all(&vec![7; BULK]).await
                }
            });
        }
    });
    address
}

async fn read_head(io: &mut TcpStream) -> HeaderMap {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(io.read_u8().await.expect("a request"));
    }
    let head = String::from_utf8(head).expect("text");
    let mut headers = HeaderMap::new();
    for (name, value) in head.lines().filter_map(|line| line.split_once(": ")) {
        let name = HeaderName::try_from(name).expect("a header name");
        headers.append(name, HeaderValue::from_str(value).expect("a header value"));
    }
    headers
}

fn trusting_nobody() -> Arc<rustls::ClientConfig> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has the default versions")
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    Arc::new(config)
}

async fn get(address: &str, path: &str) -> String {
    let mut socket = TcpStream::connect(address).await.expect("the Go program listens");
    let request = format!("GET {path} HTTP/1.0\r\n\r\n");
    socket
        .write_all(request.as_bytes())
        .await
        .expect("the Go program reads");
    let mut answer = String::new();
    socket
        .read_to_string(&mut answer)
        .await
        .expect("the Go program answers");
    answer
        .split_once("\r\n\r\n")
        .expect("an HTTP answer")
        .1
        .to_owned()
}

/// Far more than either test takes: where the two ends wait for each other, that is a failure and not a hang.
const LIMIT: Duration = Duration::from_secs(60);

#[tokio::test]
async fn our_client_serves_the_original_hub() {
    let Some(binary) = build() else { return };
    tokio::time::timeout(LIMIT, serve_the_original_hub(&binary))
        .await
        .expect("no end waits for the other for ever");
}

async fn serve_the_original_hub(binary: &Path) {
    let child = Command::new(binary)
        .arg("server")
        .stdout(Stdio::piped())
        .spawn()
        .expect("it was built");
    let mut child = Process(child);
    let mut address = String::new();
    let stdout = child.0.stdout.take().expect("it is piped");
    BufReader::new(stdout)
        .read_line(&mut address)
        .expect("it prints its address");
    let address = address.trim();
    let (target, bulk) = (echo().await, bulk().await);

    let config = ClientConfig::new(format!("ws://{address}/sockets/c1"), "c1");
    let mut state = config.state.subscribe();
    let shutdown = CancellationToken::new();
    let run = client::run(
        config,
        Arc::new(TlsConnector::new(trusting_nobody())),
        Arc::new(AllowList::new(
            [target.clone(), bulk.clone(), "127.0.0.1:1".to_owned()],
            TcpDialer,
        )),
        Env::system(),
        shutdown.clone(),
    );
    let running = tokio::spawn(run);
    state
        .wait_for(|state| *state == ClientState::Connected)
        .await
        .expect("the client runs");
    // The original hub lists a session a moment after it has answered the handshake.
    while get(address, &format!("/echo?address={target}&bytes=1"))
        .await
        .contains("failed to find Session")
    {
        tokio::task::yield_now().await;
    }

    for (exchange, target, size) in [
        ("echo", &target, 1),
        ("echo", &target, 70_000),
        ("echo", &target, 1 << 20),
        ("download", &bulk, BULK),
        ("upload", &bulk, BULK),
    ] {
        assert_eq!(
            get(address, &format!("/{exchange}?address={target}&bytes={size}")).await,
            format!("passed {size}")
        );
    }
    let refused = get(address, "/echo?address=10.0.0.1:443&bytes=1").await;
    assert_eq!(refused, "error: 10.0.0.1:443 is not on the agent's allow list");
    let failed = get(address, "/echo?address=127.0.0.1:1&bytes=1").await;
    assert!(
        failed.starts_with("error: dial 127.0.0.1:1: Connection refused"),
        "{failed}"
    );
    assert_eq!(*state.borrow(), ClientState::Connected);
    shutdown.cancel();
    running.await.expect("no panic").expect("a good URL");
}

#[tokio::test]
async fn our_hub_dials_through_the_original_client() {
    let Some(binary) = build() else { return };
    tokio::time::timeout(LIMIT, dial_through_the_original_client(&binary))
        .await
        .expect("no end waits for the other for ever");
}

async fn dial_through_the_original_client(binary: &Path) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("ws://{}/sockets/c1", listener.local_addr().expect("it is bound"));
    let _child = Process(
        Command::new(binary)
            .args(["client", &url])
            .spawn()
            .expect("it was built"),
    );
    let (mut socket, _) = listener.accept().await.expect("the client connects");
    let headers = read_head(&mut socket).await;
    assert_eq!(headers["authorization"], "Bearer t");
    let response = tunnel::switch_protocols(&headers).expect("a WebSocket handshake");
    let mut text = "HTTP/1.1 101 Switching Protocols\r\n".to_owned();
    for (name, value) in response.headers() {
        text.push_str(&format!("{name}: {}\r\n", value.to_str().expect("text")));
    }
    text.push_str("\r\n");
    socket.write_all(text.as_bytes()).await.expect("the client reads");
    let registry = Registry::new(Env::system(), Limits::default());
    let serving = registry.clone();
    tokio::spawn(async move { serving.serve("c1", socket).await });
    while !registry.is_connected("c1") {
        tokio::task::yield_now().await;
    }

    let target = echo().await;
    for size in [1, 70_000, 1 << 20] {
        let stream = registry.dial("c1", "tcp", &target).expect("a tunnel");
        let (mut reader, mut writer) = tokio::io::split(stream);
        let sent: Vec<u8> = (0..size).map(|n: u32| (n ^ (n >> 8)) as u8).collect();
        let mut read = vec![0; sent.len()];
        let expected = sent.clone();
        let writing = tokio::spawn(async move { writer.write_all(&sent).await.map(|()| writer) });
        reader.read_exact(&mut read).await.expect("all of it");
        assert!(read == expected);
        drop(writing.await.expect("no panic").expect("an open stream"));
    }
    let target = bulk().await;
    let mut upload = registry.dial("c1", "tcp", &target).expect("a tunnel");
    upload.write_all(b"u").await.expect("an open stream");
    upload.write_all(&vec![7; BULK]).await.expect("an open stream");
    assert_eq!(upload.read_u8().await.expect("an answer"), b'.');
    let mut download = registry.dial("c1", "tcp", &target).expect("a tunnel");
    download.write_all(b"d").await.expect("an open stream");
    // Long enough for the far side to be paused.
    while registry.connected()[0].stats.pauses_sent == 0 {
        tokio::task::yield_now().await;
    }
    let mut all = Vec::new();
    download.read_to_end(&mut all).await.expect("an orderly end");
    assert_eq!(all.len(), BULK);
    let mut stream = registry.dial("c1", "tcp", "127.0.0.1:1").expect("a tunnel");
    let error = stream.read_u8().await.expect_err("nobody listens there");
    assert!(error.to_string().contains("connection refused"), "{error}");

    // Longer than a ping's turn of either side, so that both kinds of pings have passed.
    tokio::time::timeout(Duration::from_secs(6), serving_ends(&registry))
        .await
        .expect_err("it stays up");
}

async fn serving_ends(registry: &Registry) {
    while registry.is_connected("c1") {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

//! What strangers may send to the built program: memory stays bounded, one line says it, and nobody else notices.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use e2e::{Bench, Process, Up, plain_http, wait_for};

/// What the attacks below may add to the memory in use, in MiB.
const ROOM: u64 = 96;
/// D11 (e).
const HANDSHAKES: usize = 10_000;

/// The resident memory of a process, in MiB.
fn resident(process: &Process) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib: u64 = line
        .and_then(|line| line.split_whitespace().next()?.parse().ok())
        .expect("a size in KiB");
    kib >> 10
}

/// How often a text stands in the program's own output.
fn lines(up: &Up, text: &str) -> usize {
    up.process
        .output()
        .lines()
        .filter(|line| line.contains(text))
        .count()
}

fn address(up: &Up) -> SocketAddr {
    let kubeconfig = std::fs::read_to_string(up.data().join("kubeconfig")).expect("a kubeconfig");
    let (_, rest) = kubeconfig.split_once("https://").expect("a server");
    let end = rest.find(|c: char| c != '.' && c != ':' && !c.is_ascii_digit());
    rest[..end.unwrap_or(rest.len())].parse().expect("an address")
}

#[test]
fn d11_strangers_hold_little_and_keep_nobody_out() {
    let Some(bench) = Bench::find("d11_strangers_hold_little_and_keep_nobody_out") else {
        return;
    };
    let up = Up::start(&bench, &["--members", "1", "--log", "info"]);
    let kubectl = up.kubectl();
    let mut watch = kubectl.start("get configmaps -n default -o name --watch");
    let before = resident(&up.process);

    // Some say nothing, some begin a ClientHello that never ends.
    let to = address(&up);
    let mut strangers = Vec::with_capacity(HANDSHAKES);
    for number in 0..HANDSHAKES {
        // The listener's backlog may be full for a moment; the kernel lets them in by and by.
        let mut stranger = TcpStream::connect_timeout(&to, Duration::from_secs(20)).expect("a socket");
        if number % 2 == 0 {
            // It may have been closed already.
            drop(stranger.write_all(&[0x16, 3, 1, 2, 0, 1]));
        }
        strangers.push(stranger);
    }
    kubectl.run("create configmap during -n default");
    wait_for("the watch goes on", Duration::from_secs(20), || {
        let line = watch.line();
        line.contains("configmap/during").then_some(()).ok_or(line)
    });
    let grown = resident(&up.process).saturating_sub(before);
    assert!(
        grown <= ROOM,
        "{HANDSHAKES} half-open handshakes take {grown} MiB"
    );
    drop(strangers);
    let said = lines(&up, "handshake");
    assert!((1..=5).contains(&said), "{said} lines about handshakes");
}

/// D11 (a): a body of 4 GiB, in chunks, to a route that takes small objects.
#[test]
fn d11_a_body_of_four_gigabytes_is_cut_off() {
    let Some(bench) = Bench::find("d11_a_body_of_four_gigabytes_is_cut_off") else {
        return;
    };
    let up = Up::start(&bench, &["--members", "1", "--log", "info"]);
    let before = resident(&up.process);
    let (_proxy, proxy) = plain_http(&bench, &up.data().join("kubeconfig"), up.folder.path());
    let mut stream = TcpStream::connect(proxy).expect("kubectl's proxy serves");
    let head = "POST /apis/certificates.k8s.io/v1/certificatesigningrequests HTTP/1.1\r\nHost: localhost\r\n\
                Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).expect("an open connection");
    let mut reader = stream.try_clone().expect("a second handle");
    let answer = std::thread::spawn(move || {
        let (mut answer, mut part) = (Vec::new(), [0; 4_096]);
        // It ends with the answer, or with the connection.
        while !answer.windows(4).any(|window| window == b"\r\n\r\n") {
            match reader.read(&mut part) {
                Ok(0) | Err(_) => break,
                Ok(read) => answer.extend_from_slice(&part[..read]),
            }
        }
        String::from_utf8_lossy(&answer).into_owned()
    });
    let chunk = [b"100000\r\n".as_slice(), &vec![b' '; 1 << 20], b"\r\n"].concat();
    let mut sent = 0_u64;
    while sent < 4 << 10 && stream.write_all(&chunk).is_ok() {
        sent += 1;
    }
    assert!(sent < 256, "{sent} MiB were taken");
    let answer = answer.join().expect("no panic");
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 413"),
        "{answer}"
    );
    let grown = resident(&up.process).saturating_sub(before);
    assert!(grown <= ROOM, "a huge body takes {grown} MiB");
    assert_eq!(lines(&up, "too large"), 1, "{}", up.process.output());
    up.kubectl().run("get --raw /readyz");
}

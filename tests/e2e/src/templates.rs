//! kubectl on templates, as `kubectl clusternet` is: an unmodified kubectl whose requests are sent to the shadow API.
//!
//! That program wraps kubectl's transport; here a server between the two does the same to each request.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use api::shadow_url;

use crate::{Bench, Kubectl, Process, wait_for};

/// A request's head may have this many bytes.
const MAX_HEAD: usize = 64 << 10;

/// A kubectl whose every object is a template.
#[derive(Debug)]
pub struct Templates {
    kubectl: Kubectl,
    /// Carries the hub's credentials.
    _proxy: Process,
}

impl Templates {
    /// For a hub that a kubeconfig names.
    ///
    /// # Panics
    /// When kubectl's proxy does not start.
    pub fn start(bench: &Bench, kubeconfig: &Path, folder: &Path) -> Self {
        let (proxy, hub) = plain_http(bench, kubeconfig, folder);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // A connection that breaks is kubectl's to complain of.
                std::thread::spawn(move || drop(carry(client, hub)));
            }
        });
        let path = folder.join("templates.kubeconfig");
        let text = format!(
            "apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {{server: \"http://{address}\"}}}}]\n\
             contexts: [{{name: c, context: {{cluster: c}}}}]\ncurrent-context: c\n"
        );
        std::fs::write(&path, text).expect("a kubeconfig can be written");
        Self {
            kubectl: bench.kubectl(path),
            _proxy: proxy,
        }
    }

    /// The kubectl.
    pub fn kubectl(&self) -> &Kubectl {
        &self.kubectl
    }
}

/// A server without credentials and TLS for what a kubeconfig reaches: kubectl's own proxy.
///
/// # Panics
/// When it does not start.
pub fn plain_http(bench: &Bench, kubeconfig: &Path, folder: &Path) -> (Process, SocketAddr) {
    let mut command = Command::new(bench.realkube.join("bin/kubectl"));
    command
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .args(["proxy", "--port=0", "--append-server-path"]);
    let proxy = Process::start("proxy", &mut command, folder);
    let address = wait_for("kubectl proxy serves", Duration::from_secs(20), || {
        let output = proxy.output();
        let address = output
            .trim()
            .rsplit(' ')
            .next()
            .and_then(|word| word.parse().ok());
        address.ok_or(output)
    });
    (proxy, address)
}

/// Carries one request and its answer.
fn carry(mut client: TcpStream, hub: SocketAddr) -> io::Result<()> {
    let (head, rest) = read_head(&mut client)?;
    let mut hub = TcpStream::connect(hub)?;
    hub.write_all(rewritten(&head).as_bytes())?;
    hub.write_all(&rest)?;
    let (mut from_client, mut to_hub) = (client.try_clone()?, hub.try_clone()?);
    std::thread::spawn(move || {
        // What remains of a request may end at any time.
        drop(io::copy(&mut from_client, &mut to_hub));
        drop(to_hub.shutdown(Shutdown::Write));
    });
    io::copy(&mut hub, &mut client)?;
    client.shutdown(Shutdown::Both)
}

fn read_head(client: &mut TcpStream) -> io::Result<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let mut part = [0; 4_096];
    loop {
        if let Some(end) = bytes.windows(4).position(|end| end == b"\r\n\r\n") {
            let rest = bytes.split_off(end + 4);
            let head = String::from_utf8(bytes).map_err(io::Error::other)?;
            return Ok((head, rest));
        }
        let read = client.read(&mut part)?;
        if read == 0 || bytes.len() > MAX_HEAD {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(&part[..read]);
    }
}

/// A request's head for the hub: another path, and one request a connection.
fn rewritten(head: &str) -> String {
    let (line, headers) = head.split_once("\r\n").unwrap_or((head, "\r\n"));
    let mut words = line.splitn(3, ' ');
    let mut next = || words.next().unwrap_or_default();
    let (method, path, version) = (next(), next(), next());
    let kept: Vec<&str> = headers
        .trim_end()
        .lines()
        .filter(|header| !header.to_ascii_lowercase().starts_with("connection:"))
        .collect();
    format!(
        "{method} {} {version}\r\n{}\r\nConnection: close\r\n\r\n",
        shadow_url::rewrite("", path),
        kept.join("\r\n")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_asks_for_one_answer() {
        assert_eq!(
            rewritten("GET /api/v1/pods HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\n\r\n"),
            "GET /apis/shadow/v1alpha1/pods HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        );
    }
}

//! The kubeconfig text: JSON is YAML, but people read this file, so it is written as block YAML. Every value is
//! a double-quoted scalar, whose escapes are JSON's.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{Identity, Secret};

/// How a kubeconfig's user proves who it is.
#[derive(Debug, Clone)]
pub enum Credential {
    /// A client certificate.
    Certificate(Identity),
    /// A bearer token.
    Token(Secret),
    /// Nothing: the server sees `system:anonymous`.
    Anonymous,
}

/// One cluster, one user, one context.
#[derive(Debug, Clone)]
pub struct Kubeconfig {
    /// The name of cluster and context.
    pub cluster: String,
    /// The server's URL.
    pub server: String,
    /// Its authority, PEM; `None` leaves it to the system's.
    pub certificate_authority_pem: Option<String>,
    /// The user's name in the file.
    pub user: String,
    /// The user's credential.
    pub credential: Credential,
    /// The context's namespace.
    pub namespace: Option<String>,
}

impl Kubeconfig {
    /// The file's text. It holds secrets: write it 0600.
    pub fn to_text(&self) -> String {
        let mut text = String::from("apiVersion: v1\nkind: Config\n");
        push(&mut text, 0, "current-context", &self.cluster);
        text.push_str("clusters:\n");
        push(&mut text, 0, "- name", &self.cluster);
        text.push_str("  cluster:\n");
        push(&mut text, 4, "server", &self.server);
        if let Some(pem) = &self.certificate_authority_pem {
            push(&mut text, 4, "certificate-authority-data", &STANDARD.encode(pem));
        }
        text.push_str("contexts:\n");
        push(&mut text, 0, "- name", &self.cluster);
        text.push_str("  context:\n");
        push(&mut text, 4, "cluster", &self.cluster);
        push(&mut text, 4, "user", &self.user);
        if let Some(namespace) = &self.namespace {
            push(&mut text, 4, "namespace", namespace);
        }
        text.push_str("users:\n");
        push(&mut text, 0, "- name", &self.user);
        match &self.credential {
            Credential::Certificate(identity) => {
                text.push_str("  user:\n");
                let certificate = STANDARD.encode(&identity.certificate_pem);
                push(&mut text, 4, "client-certificate-data", &certificate);
                let key = STANDARD.encode(identity.key_pem.expose());
                push(&mut text, 4, "client-key-data", &key);
            }
            Credential::Token(token) => {
                text.push_str("  user:\n");
                push(&mut text, 4, "token", token.expose());
            }
            Credential::Anonymous => text.push_str("  user: {}\n"),
        }
        text
    }
}

fn push(text: &mut String, indent: usize, key: &str, value: &str) {
    writeln!(text, "{:indent$}{key}: {}", "", quoted(value)).expect("a String takes all text");
}

fn quoted(value: &str) -> String {
    serde_json::Value::from(value).to_string()
}

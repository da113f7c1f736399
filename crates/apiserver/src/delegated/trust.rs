//! Whom a delegated server believes by certificate: what `extension-apiserver-authentication` says.

use http::HeaderMap;
use jiff::Timestamp;
use serde_json::Value;

use crate::authn::{CertificateVerifier, FrontProxy, FrontProxyHeaders, Refusal};
use crate::pki::PkiError;
use crate::user::{Peer, UserInfo};

/// Nobody, until a ConfigMap says whom.
#[derive(Debug, Default)]
pub(super) struct Trust {
    clients: Option<CertificateVerifier>,
    pub(super) front_proxy: Option<FrontProxy>,
}

impl Trust {
    /// Reads the ConfigMap.
    pub(super) fn read(config_map: &Value) -> Result<Self, PkiError> {
        let data = &config_map["data"];
        let pem = |key: &str| data[key].as_str().filter(|text| !text.trim().is_empty());
        let clients = pem("client-ca-file").map(CertificateVerifier::new).transpose()?;
        let front_proxy = match pem("requestheader-client-ca-file") {
            None => None,
            Some(authorities) => {
                let headers = FrontProxyHeaders {
                    user: list(data, "requestheader-username-headers")?,
                    uid: list(data, "requestheader-uid-headers")?,
                    group: list(data, "requestheader-group-headers")?,
                    extra_prefix: list(data, "requestheader-extra-headers-prefix")?,
                };
                if headers.user.is_empty() {
                    return Err(PkiError::Pem {
                        what: "a front proxy's configuration",
                        why: "requestheader-username-headers names no header".to_owned(),
                    });
                }
                let names = list(data, "requestheader-allowed-names")?;
                Some(FrontProxy::new(authorities, names, headers)?)
            }
        };
        Ok(Self { clients, front_proxy })
    }

    /// The user of a connection: whom a front proxy names, or whose client certificate it is. `None` if neither is
    /// claimed. The headers of front proxies go in any case.
    pub(super) fn user(
        &self,
        peer: &Peer,
        headers: &mut HeaderMap,
        now: Timestamp,
    ) -> Result<Option<UserInfo>, Refusal> {
        if let Some(front_proxy) = &self.front_proxy {
            let said = front_proxy.headers().take(headers);
            if front_proxy.vouches(peer, now) {
                return Ok(said);
            }
        }
        match &self.clients {
            Some(verifier) if !peer.certificates.is_empty() => {
                verifier.user(&peer.certificates, now).map(Some)
            }
            _ => Ok(None),
        }
    }
}

/// A list of texts that the ConfigMap holds as JSON; absent is empty.
fn list(data: &Value, key: &str) -> Result<Vec<String>, PkiError> {
    match data[key].as_str() {
        None | Some("") => Ok(Vec::new()),
        Some(text) => serde_json::from_str(text).map_err(|error| PkiError::Pem {
            what: "a front proxy's configuration",
            why: format!("{key} is no JSON list of texts: {error}"),
        }),
    }
}

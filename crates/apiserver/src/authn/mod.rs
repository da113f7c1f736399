//! Who a request is from: front proxy, client certificate, bearer token, or nobody. Knows objects only through the
//! source; decides nothing about rights. The entry type is [`Authenticator`].

mod bearer;
pub(crate) mod bootstrap;
mod certificate;
mod front_proxy;
pub mod fuzz;
mod gate;

use std::sync::{Arc, PoisonError, RwLock};

use clock::Env;
use http::HeaderMap;
use http::header::{AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL};
use machinery::{ApiError, Reason};
use source::ObjectSource;

use crate::pki::PkiError;
use crate::tokens::{TokenError, TokenKeys};
use crate::user::{Peer, UserInfo};

pub use certificate::CertificateVerifier;
pub use front_proxy::{FrontProxy, FrontProxyHeaders};
pub use gate::Gate;

/// What authentication needs.
#[derive(Debug)]
pub struct Config {
    /// Where service accounts and Secrets are.
    pub source: Arc<dyn ObjectSource>,
    /// Wall time.
    pub env: Env,
    /// The keys of service-account tokens.
    pub tokens: Arc<TokenKeys>,
    /// The authorities of client certificates, PEM; `None` accepts none.
    pub client_authorities_pem: Option<String>,
    /// The front proxies to trust; `None` trusts none.
    pub front_proxy: Option<FrontProxy>,
    /// Whether a request without credentials is `system:anonymous` (default of Kubernetes) or refused.
    pub anonymous: Anonymous,
}

/// What becomes of a request without credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Anonymous {
    /// It is `system:anonymous`, whom authorization will mostly refuse.
    #[default]
    Allowed,
    /// It is refused with 401.
    Refused,
}

/// Why a credential was not accepted. For logs and TokenReviews: the client itself learns nothing but 401, or 503 if
/// nobody can tell at the moment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error("the token is of no known kind")]
    UnknownToken,
    #[error("the bootstrap token {0}")]
    Bootstrap(&'static str),
    #[error("the client certificate {0}")]
    Certificate(String),
    #[error("the object store does not answer: {0}")]
    Source(String),
}

impl Refusal {
    /// Whether the credential may be good all the same: it could not be looked up.
    pub(crate) fn is_open(&self) -> bool {
        match self {
            Self::Source(_) => true,
            Self::Token(_) | Self::UnknownToken | Self::Bootstrap(_) | Self::Certificate(_) => false,
        }
    }
}

/// Finds out who requests are from.
#[derive(Debug)]
pub struct Authenticator {
    source: Arc<dyn ObjectSource>,
    env: Env,
    tokens: Arc<TokenKeys>,
    certificates: RwLock<Option<Arc<CertificateVerifier>>>,
    front_proxy: Option<FrontProxy>,
    anonymous: Anonymous,
}

/// A verified token: whose it is, and which of the wanted audiences it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Authenticated {
    pub(crate) user: UserInfo,
    pub(crate) audiences: Vec<String>,
}

impl Authenticator {
    /// Checks the configuration.
    ///
    /// # Errors
    /// [`PkiError`] if the authorities are no certificates.
    pub fn new(config: Config) -> Result<Self, PkiError> {
        let Config {
            source,
            env,
            tokens,
            client_authorities_pem,
            front_proxy,
            anonymous,
        } = config;
        let certificates = client_authorities_pem
            .map(|pem| CertificateVerifier::new(&pem).map(Arc::new))
            .transpose()?;
        Ok(Self {
            source,
            env,
            tokens,
            certificates: RwLock::new(certificates),
            front_proxy,
            anonymous,
        })
    }

    /// Accepts certificates of these authorities (PEM) from now on, and of no others.
    ///
    /// # Errors
    /// [`PkiError`] if they are no certificates; it stays as it was then.
    pub fn trust(&self, client_authorities_pem: &str) -> Result<(), PkiError> {
        let fresh = Arc::new(CertificateVerifier::new(client_authorities_pem)?);
        *self.certificates.write().unwrap_or_else(PoisonError::into_inner) = Some(fresh);
        Ok(())
    }

    fn certificates(&self) -> Option<Arc<CertificateVerifier>> {
        self.certificates
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The keys of service-account tokens.
    pub fn tokens(&self) -> &Arc<TokenKeys> {
        &self.tokens
    }

    /// Who a request is from. Takes the credentials out of its headers, so that nothing behind can leak them.
    ///
    /// # Errors
    /// 401, whatever was wrong; 503 if the source could not be read, since whoever gets 401 throws its credential away.
    pub async fn authenticate(&self, peer: &Peer, headers: &mut HeaderMap) -> Result<UserInfo, ApiError> {
        match self.find_out(peer, headers).await {
            Ok(user) => Ok(user),
            Err(refusals) => {
                for refusal in &refusals {
                    tracing::debug!(error = %refusal, "a credential was refused");
                }
                Err(if refusals.iter().any(Refusal::is_open) {
                    undecided()
                } else {
                    unauthorized()
                })
            }
        }
    }

    async fn find_out(&self, peer: &Peer, headers: &mut HeaderMap) -> Result<UserInfo, Vec<Refusal>> {
        let mut refusals = Vec::new();
        let now = self.env.now();
        let token = take_token(headers);
        if let Some(front_proxy) = &self.front_proxy {
            // Only the proxy's word counts: without its certificate these headers are just a client's claim.
            let said = front_proxy.headers().take(headers);
            if let Some(user) = said
                && front_proxy.vouches(peer, now)
            {
                return Ok(user);
            }
        }
        if let (Some(verifier), false) = (self.certificates(), peer.certificates.is_empty()) {
            match verifier.user(&peer.certificates, now) {
                Ok(user) => return Ok(user),
                Err(refusal) => refusals.push(refusal),
            }
        }
        if let Some(token) = token {
            match self.authenticate_token(&token, self.tokens.audiences()).await {
                Ok(found) => return Ok(found.user),
                Err(refusal) => refusals.push(refusal),
            }
        }
        if refusals.is_empty() && self.anonymous == Anonymous::Allowed {
            return Ok(UserInfo::anonymous());
        }
        Err(refusals)
    }
}

/// 401 as Kubernetes words it.
pub(crate) fn unauthorized() -> ApiError {
    ApiError::new(Reason::Unauthorized, "Unauthorized")
}

/// 503: whose a credential is cannot be found out now. Says nothing about the credential.
pub(crate) fn undecided() -> ApiError {
    ApiError::new(
        Reason::ServiceUnavailable,
        "credentials cannot be checked, the object store does not answer",
    )
}

/// The sub-protocol by which browsers, which cannot set headers on WebSockets, send a token.
const WEBSOCKET_TOKEN: &str = "base64url.bearer.authorization.k8s.io.";

/// Takes the bearer token out of a request. Any other scheme is no credential: `Basic` is what kubeconfigs with
/// `username: system:anonymous` send, and Kubernetes takes them for anonymous too.
fn take_token(headers: &mut HeaderMap) -> Option<String> {
    let authorization = headers.remove(AUTHORIZATION);
    let from_protocols = take_websocket_token(headers);
    if let Some(value) = authorization {
        // A value that is not text cannot be a valid token: it stays as one that will be refused.
        let text = String::from_utf8_lossy(value.as_bytes()).into_owned();
        let (scheme, token) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        let token = token.trim();
        if scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() {
            return Some(token.to_owned());
        }
    }
    from_protocols
}

fn take_websocket_token(headers: &mut HeaderMap) -> Option<String> {
    use base64::Engine as _;
    let mut found = None;
    let mut kept: Vec<String> = Vec::new();
    for value in headers.get_all(SEC_WEBSOCKET_PROTOCOL) {
        for protocol in value.to_str().ok()?.split(',').map(str::trim) {
            match protocol.strip_prefix(WEBSOCKET_TOKEN) {
                Some(encoded) => {
                    let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD
                        .decode(encoded)
                        .ok()?;
                    found = Some(String::from_utf8(bytes).ok()?);
                }
                None => kept.push(protocol.to_owned()),
            }
        }
    }
    let found = found?;
    headers.remove(SEC_WEBSOCKET_PROTOCOL);
    if let (false, Ok(rest)) = (kept.is_empty(), kept.join(", ").parse()) {
        headers.insert(SEC_WEBSOCKET_PROTOCOL, rest);
    }
    Some(found)
}

#[cfg(test)]
mod tests;

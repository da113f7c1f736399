//! Client certificates: the chain must end at a trusted authority and be valid now; the subject is the user.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls_pki_types::{CertificateDer, UnixTime};
use sha2::{Digest as _, Sha256};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::Refusal;
use crate::pki::{PkiError, provider, roots};
use crate::user::{AUTHENTICATED, UserInfo};

/// How many verified certificates are remembered.
const CACHE_SIZE: usize = 1_024;
/// A longer chain is refused before it costs anything.
const MAX_CHAIN: usize = 8;

/// Decides whether a client's certificate is to be trusted, and whose it is.
#[derive(Debug)]
pub struct CertificateVerifier {
    verifier: Arc<dyn ClientCertVerifier>,
    /// By the hash of the whole chain. What depends on the time is checked again each time.
    known: Mutex<BTreeMap<[u8; 32], Arc<Known>>>,
}

#[derive(Debug)]
struct Known {
    user: UserInfo,
    not_before: Timestamp,
    not_after: Timestamp,
}

impl CertificateVerifier {
    /// Trusts the authorities of a PEM text.
    ///
    /// # Errors
    /// [`PkiError`] if there is none.
    pub fn new(authorities_pem: &str) -> Result<Self, PkiError> {
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots(authorities_pem)?), provider())
                .build()
                .map_err(|error| PkiError::Pem {
                    what: "client authorities",
                    why: error.to_string(),
                })?;
        Ok(Self {
            verifier,
            known: Mutex::default(),
        })
    }

    /// The user of a chain (its own certificate first), whose key the peer was seen to hold.
    pub(crate) fn user(
        &self,
        chain: &[CertificateDer<'static>],
        now: Timestamp,
    ) -> Result<UserInfo, Refusal> {
        let known = self.check(chain, now)?;
        if now < known.not_before || now > known.not_after {
            return Err(Refusal::Certificate("has expired".to_owned()));
        }
        if known.user.name.is_empty() {
            return Err(Refusal::Certificate("has no common name".to_owned()));
        }
        Ok(known.user.clone())
    }

    fn check(&self, chain: &[CertificateDer<'static>], now: Timestamp) -> Result<Arc<Known>, Refusal> {
        let (end_entity, intermediates) = match chain {
            [] => return Err(Refusal::Certificate("is missing".to_owned())),
            chain if chain.len() > MAX_CHAIN => {
                let why = format!(
                    "comes with {} certificates, the limit is {MAX_CHAIN}",
                    chain.len()
                );
                return Err(Refusal::Certificate(why));
            }
            [end_entity, intermediates @ ..] => (end_entity, intermediates),
        };
        let mut hash = Sha256::new();
        for certificate in chain {
            hash.update((certificate.len() as u64).to_be_bytes());
            hash.update(certificate);
        }
        let hash: [u8; 32] = hash.finalize().into();
        if let Some(known) = self.known().get(&hash) {
            return Ok(known.clone());
        }
        let seconds = u64::try_from(now.as_second()).unwrap_or(0);
        let time = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        self.verifier
            .verify_client_cert(end_entity, intermediates, time)
            .map_err(|error| Refusal::Certificate(format!("is not trusted: {error}")))?;
        let known = Arc::new(read(end_entity, chain)?);
        let mut cache = self.known();
        if cache.len() >= CACHE_SIZE {
            cache.clear();
        }
        cache.insert(hash, known.clone());
        Ok(known)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, BTreeMap<[u8; 32], Arc<Known>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read(end_entity: &CertificateDer<'_>, chain: &[CertificateDer<'static>]) -> Result<Known, Refusal> {
    let damaged = |error: &dyn std::fmt::Display| Refusal::Certificate(format!("is damaged: {error}"));
    let (_, certificate) = X509Certificate::from_der(end_entity).map_err(|error| damaged(&error))?;
    let text = |value: &x509_parser::x509::AttributeTypeAndValue<'_>| {
        value.as_str().map(str::to_owned).unwrap_or_default()
    };
    let name = certificate
        .subject()
        .iter_common_name()
        .next()
        .map(text)
        .unwrap_or_default();
    let mut groups: Vec<String> = certificate.subject().iter_organization().map(text).collect();
    groups.push(AUTHENTICATED.to_owned());
    // The chain is known for as long as its shortest-lived certificate.
    let mut not_before = Timestamp::MIN;
    let mut not_after = Timestamp::MAX;
    for one in chain {
        let (_, one) = X509Certificate::from_der(one).map_err(|error| damaged(&error))?;
        let at = |time: x509_parser::time::ASN1Time, fallback| {
            Timestamp::from_second(time.timestamp()).unwrap_or(fallback)
        };
        not_before = not_before.max(at(one.validity().not_before, Timestamp::MAX));
        not_after = not_after.min(at(one.validity().not_after, Timestamp::MIN));
    }
    let mut credential = String::from("X509SHA256=");
    for byte in Sha256::digest(end_entity) {
        write!(credential, "{byte:02x}").expect("a String takes all text");
    }
    let extra = BTreeMap::from([(
        "authentication.kubernetes.io/credential-id".to_owned(),
        vec![credential],
    )]);
    Ok(Known {
        user: UserInfo {
            name,
            uid: String::new(),
            groups,
            extra,
        },
        not_before,
        not_after,
    })
}

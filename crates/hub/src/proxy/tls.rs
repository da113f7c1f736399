//! TLS to servers in a cluster: always verified, by the cluster's own CA.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use machinery::ApiError;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use super::credentials::Identity;
use crate::respond;

/// Configurations that are kept; making one parses keys.
const MAX_KEPT: usize = 256;

type Key = (Arc<[u8]>, Option<Identity>);

/// Configurations by CA and identity.
#[derive(Default)]
pub(crate) struct Configs {
    kept: Mutex<BTreeMap<Key, Arc<ClientConfig>>>,
}

impl Configs {
    /// The configuration for a CA bundle and a client certificate.
    ///
    /// # Errors
    /// 400 for a certificate or key that cannot be used, 502 for a CA that cannot.
    pub(crate) fn get(
        &self,
        ca: &Arc<[u8]>,
        identity: Option<&Identity>,
    ) -> Result<Arc<ClientConfig>, ApiError> {
        let key = (Arc::clone(ca), identity.cloned());
        if let Some(config) = self.kept.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(Arc::clone(config));
        }
        let config = Arc::new(make(ca, identity)?);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MAX_KEPT {
            kept.clear();
        }
        kept.insert(key, Arc::clone(&config));
        Ok(config)
    }
}

fn make(ca: &[u8], identity: Option<&Identity>) -> Result<ClientConfig, ApiError> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca).flatten() {
        if let Err(error) = roots.add(certificate) {
            // One certificate that is not understood does not spoil the bundle.
            tracing::debug!(%error, "a certificate of a cluster's CA bundle is left out");
        }
    }
    if roots.is_empty() {
        return Err(respond::bad_gateway(
            "the cluster's CA bundle holds no certificate".to_owned(),
        ));
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| ApiError::internal(format!("TLS cannot be set up: {error}")))?
        .with_root_certificates(roots);
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            let bad =
                |what: &str| ApiError::bad_request(format!("the client certificate is not usable: {what}"));
            let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&identity.certificate)
                .collect::<Result<_, _>>()
                .map_err(|_| bad("it is not PEM"))?;
            if chain.is_empty() {
                return Err(bad("it is not PEM"));
            }
            let key = PrivateKeyDer::from_pem_slice(&identity.key).map_err(|_| bad("its key is not PEM"))?;
            builder
                .with_client_auth_cert(chain, key)
                .map_err(|error| bad(&error.to_string()))?
        }
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

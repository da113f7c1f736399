//! rustls configurations for both ends.

use std::sync::{Arc, PoisonError, RwLock};

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{
    ClientConfig, DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig, SignatureScheme,
};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, UnixTime};

use super::{Identity, PkiError};

/// The one cryptography provider of the process.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

/// Makes [`provider`] the process's default. Calling it again does nothing.
pub fn install_default() {
    // An error means that a default is there already, which is all we want.
    let _already_there = rustls::crypto::aws_lc_rs::default_provider().install_default();
}

/// The certificates of a PEM text.
///
/// # Errors
/// [`PkiError::Pem`] if there is none or one does not parse.
pub(crate) fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, PkiError> {
    let problem = |why: String| PkiError::Pem {
        what: "certificates",
        why,
    };
    let all: Vec<_> = CertificateDer::pem_slice_iter(pem.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(|error| problem(error.to_string()))?;
    if all.is_empty() {
        return Err(problem("there is none".to_owned()));
    }
    Ok(all)
}

/// A store of trusted authorities from PEM.
///
/// # Errors
/// [`PkiError::Pem`] if the text holds no certificate, [`PkiError::Tls`] if one is no trust anchor.
pub(crate) fn roots(pem: &str) -> Result<RootCertStore, PkiError> {
    let mut store = RootCertStore::empty();
    for certificate in certificates(pem)? {
        store.add(certificate)?;
    }
    Ok(store)
}

fn certified_key(identity: &Identity) -> Result<CertifiedKey, PkiError> {
    let chain = certificates(&identity.certificate_pem)?;
    let key = private_key(identity)?;
    Ok(CertifiedKey::from_der(chain, key, &provider())?)
}

fn private_key(identity: &Identity) -> Result<PrivateKeyDer<'static>, PkiError> {
    PrivateKeyDer::from_pem_slice(identity.key_pem.expose().as_bytes()).map_err(|error| PkiError::Pem {
        what: "a private key",
        why: error.to_string(),
    })
}

/// The certificate that a listener shows; it can be replaced while it runs.
#[derive(Debug)]
pub struct ServingCertificate(RwLock<Arc<CertifiedKey>>);

impl ServingCertificate {
    /// Shows an identity.
    ///
    /// # Errors
    /// [`PkiError::Pem`] or [`PkiError::Tls`] if it is not usable.
    pub fn new(identity: &Identity) -> Result<Arc<Self>, PkiError> {
        Ok(Arc::new(Self(RwLock::new(Arc::new(certified_key(identity)?)))))
    }

    /// Shows another identity from the next handshake on.
    ///
    /// # Errors
    /// As [`ServingCertificate::new`]; the old one stays then.
    pub fn replace(&self, identity: &Identity) -> Result<(), PkiError> {
        let fresh = Arc::new(certified_key(identity)?);
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        Ok(())
    }

    /// What it shows now.
    pub fn current(&self) -> Arc<CertifiedKey> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ResolvesServerCert for ServingCertificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current())
    }
}

/// A server's configuration: HTTP/2 and 1.1; client certificates are asked for, with `client_authorities_pem` as
/// the hint. The handshake only proves that the client holds its certificate's key. Whether the chain is to be
/// trusted is `authn`'s question, so that an expired certificate is answered with 401 and not with a TLS alert.
///
/// # Errors
/// [`PkiError::Pem`] or [`PkiError::Tls`] for unusable authorities.
pub fn server_config(
    certificate: Arc<ServingCertificate>,
    client_authorities_pem: &[&str],
) -> Result<Arc<ServerConfig>, PkiError> {
    let mut hints = Vec::new();
    for pem in client_authorities_pem {
        hints.extend(roots(pem)?.subjects());
    }
    let verifier = Arc::new(AskForCertificate {
        hints,
        provider: provider(),
    });
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(certificate);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// A client's configuration: trusts exactly the given authorities, shows `identity` if there is one.
///
/// # Errors
/// [`PkiError::Pem`] or [`PkiError::Tls`] for unusable authorities or identity.
pub fn client_config(authority_pem: &str, identity: Option<&Identity>) -> Result<ClientConfig, PkiError> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots(authority_pem)?);
    let config = match identity {
        Some(identity) => {
            builder.with_client_auth_cert(certificates(&identity.certificate_pem)?, private_key(identity)?)?
        }
        None => builder.with_no_client_auth(),
    };
    Ok(config)
}

#[derive(Debug)]
struct AskForCertificate {
    hints: Vec<DistinguishedName>,
    provider: Arc<CryptoProvider>,
}

impl ClientCertVerifier for AskForCertificate {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

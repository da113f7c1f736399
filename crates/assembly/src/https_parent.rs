//! How an agent reaches its parent over HTTPS.

use std::sync::Arc;

use agent::{Credential, ParentConnector};
use apiserver::BoxError;
use apiserver::pki::{client_config, provider};
use kubeio::{Client, Connection, Trust};
use tunnel::{Connector, TlsConnector};

/// A parent at a URL, known by its certificate authority.
#[derive(Debug, Clone)]
pub struct HttpsParent {
    /// The parent's API server.
    pub url: String,
    /// Its authority, PEM, as the operator named it. What registration told is trusted too; without both the operating
    /// system's authorities are.
    pub authority_pem: Option<String>,
}

impl HttpsParent {
    /// Whom to believe: what the operator named, and what the parent told over a connection to one of those. So another
    /// authority of the parent is followed, whatever the operator named once.
    fn trusted(&self, credential: &Credential) -> Option<Vec<u8>> {
        let named = self.authority_pem.as_deref().unwrap_or_default().trim();
        let told = credential.ca.as_deref().unwrap_or_default().trim_ascii();
        let all = if named.as_bytes() == told {
            told.to_vec()
        } else {
            [named.as_bytes(), told].join(&b'\n')
        };
        (!all.trim_ascii().is_empty()).then_some(all)
    }
}

impl ParentConnector for HttpsParent {
    fn connect(&self, credential: &Credential) -> Result<Client, kubeio::Error> {
        Client::from_token(&Connection {
            server: self.url.clone(),
            trust: self.trusted(credential).map_or(Trust::System, Trust::Ca),
            token: credential.token.clone(),
        })
    }

    fn tunnel(&self, credential: &Credential) -> Result<Arc<dyn Connector>, BoxError> {
        let config = match self.trusted(credential) {
            Some(pem) => client_config(std::str::from_utf8(&pem)?, None)?,
            None => {
                let mut roots = rustls::RootCertStore::empty();
                let found = rustls_native_certs::load_native_certs();
                roots.add_parsable_certificates(found.certs);
                rustls::ClientConfig::builder_with_provider(provider())
                    .with_safe_default_protocol_versions()?
                    .with_root_certificates(roots)
                    .with_no_client_auth()
            }
        };
        Ok(Arc::new(TlsConnector::new(Arc::new(config))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_operator_named_and_what_the_parent_told_are_trusted() {
        for (named, told, expected) in [
            (None, None, None),
            (None, Some(""), None),
            (Some("a\n"), None, Some("a\n")),
            (None, Some("b\n"), Some("\nb")),
            (Some("a\n"), Some("a\n"), Some("a")),
            (Some("a\n"), Some("a\nb\n"), Some("a\na\nb")),
        ] {
            let parent = HttpsParent {
                url: "https://parent".to_owned(),
                authority_pem: named.map(str::to_owned),
            };
            let credential = Credential {
                token: "t".to_owned(),
                ca: told.map(|pem| pem.as_bytes().to_vec()),
            };
            let trusted = parent.trusted(&credential).map(|pem| pem.trim_ascii().to_vec());
            let expected = expected.map(|pem| pem.trim().as_bytes().to_vec());
            assert_eq!(trusted, expected, "{named:?} {told:?}");
        }
    }
}

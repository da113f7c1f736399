//! The fuzz body of whom a parent says to believe.

use http::{HeaderMap, HeaderName, HeaderValue};
use jiff::Timestamp;
use rustls_pki_types::CertificateDer;
use serde_json::json;

use super::trust::Trust;
use crate::fuzz::edit;
use crate::user::Peer;

/// The ConfigMap `extension-apiserver-authentication` in lines (see [`edit`]).
///
/// # Panics
/// If a client is believed that only claims to be a front proxy, or shows a certificate that nobody signed, or if such
/// a claim is left in the request.
pub fn fuzz_trust(bytes: &[u8]) {
    let mut config_map = json!({});
    edit(&mut config_map, &String::from_utf8_lossy(bytes));
    let Ok(trust) = Trust::read(&config_map) else {
        return;
    };
    let names = trust.front_proxy.as_ref().map(|proxy| proxy.headers().clone());
    for chain in [Vec::new(), vec![CertificateDer::from(bytes.to_vec())]] {
        let mut headers = HeaderMap::new();
        if let Some(names) = &names {
            let extra = names.extra_prefix.iter().map(|prefix| format!("{prefix}scopes"));
            let all = [&names.user, &names.uid, &names.group].into_iter().flatten();
            for name in all.cloned().chain(extra) {
                if let Ok(name) = HeaderName::try_from(name) {
                    headers.insert(name, HeaderValue::from_static("root"));
                }
            }
        }
        let peer = Peer {
            certificates: chain.into(),
            ..Peer::default()
        };
        let user = trust.user(&peer, &mut headers, Timestamp::UNIX_EPOCH);
        assert!(!matches!(user, Ok(Some(_))), "{user:?}");
        if names
            .as_ref()
            .is_some_and(|names| names.extra_prefix.iter().all(|prefix| !prefix.is_empty()))
        {
            assert!(headers.is_empty(), "{headers:?}");
        }
    }
}

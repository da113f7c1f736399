//! The word of a front proxy: it authenticated the user and says so in headers. Believed only over a connection
//! whose certificate the proxies' own authority signed.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderName};
use jiff::Timestamp;

use super::CertificateVerifier;
use crate::pki::PkiError;
use crate::query::extra_key;
use crate::user::{AUTHENTICATED, Peer, UserInfo};

/// The names of the headers that carry a user, in order of preference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrontProxyHeaders {
    /// Carries the name.
    pub user: Vec<String>,
    /// Carries the uid.
    pub uid: Vec<String>,
    /// Carry a group each.
    pub group: Vec<String>,
    /// Prefixes of headers that carry extra values.
    pub extra_prefix: Vec<String>,
}

impl Default for FrontProxyHeaders {
    /// The names that Kubernetes uses.
    fn default() -> Self {
        let one = |name: &str| vec![name.to_owned()];
        Self {
            user: one("X-Remote-User"),
            uid: one("X-Remote-Uid"),
            group: one("X-Remote-Group"),
            extra_prefix: one("X-Remote-Extra-"),
        }
    }
}

impl FrontProxyHeaders {
    /// Takes the user out of a request's headers. All of them go, believed or not.
    pub(crate) fn take(&self, headers: &mut HeaderMap) -> Option<UserInfo> {
        let name = self.user.iter().find_map(|header| first(headers, header));
        let uid = self
            .uid
            .iter()
            .find_map(|header| first(headers, header))
            .unwrap_or_default();
        let mut groups: Vec<String> = self
            .group
            .iter()
            .flat_map(|header| all(headers, header))
            .collect();
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut gone: Vec<HeaderName> = Vec::new();
        for header in headers.keys() {
            let lower = header.as_str();
            let key = self.extra_prefix.iter().find_map(|prefix| {
                let (start, rest) = lower.split_at_checked(prefix.len())?;
                (!prefix.is_empty() && start.eq_ignore_ascii_case(prefix)).then_some(rest)
            });
            let Some(key) = key else { continue };
            extra
                .entry(extra_key(key))
                .or_default()
                .extend(all(headers, lower));
            gone.push(header.clone());
        }
        for header in gone {
            headers.remove(header);
        }
        for header in self.user.iter().chain(&self.uid).chain(&self.group) {
            headers.remove(header.as_str());
        }
        let name = name.filter(|name| !name.is_empty())?;
        if name != "system:anonymous" && !groups.iter().any(|group| group == AUTHENTICATED) {
            groups.push(AUTHENTICATED.to_owned());
        }
        Some(UserInfo {
            name,
            uid,
            groups,
            extra,
        })
    }
}

fn first(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

fn all(headers: &HeaderMap, name: &str) -> Vec<String> {
    headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok().map(str::to_owned))
        .collect()
}

/// Which proxies are believed.
#[derive(Debug)]
pub struct FrontProxy {
    headers: FrontProxyHeaders,
    verifier: CertificateVerifier,
    allowed_names: Vec<String>,
}

impl FrontProxy {
    /// Believes holders of certificates of an authority whose common name is allowed (all if none is named).
    ///
    /// # Errors
    /// [`PkiError`] if the authorities are no certificates.
    pub fn new(
        authorities_pem: &str,
        allowed_names: Vec<String>,
        headers: FrontProxyHeaders,
    ) -> Result<Self, PkiError> {
        Ok(Self {
            headers,
            verifier: CertificateVerifier::new(authorities_pem)?,
            allowed_names,
        })
    }

    /// The headers that it uses.
    pub fn headers(&self) -> &FrontProxyHeaders {
        &self.headers
    }

    /// Whether a connection's other end is such a proxy.
    pub fn vouches(&self, peer: &Peer, now: Timestamp) -> bool {
        !peer.certificates.is_empty()
            && self
                .verifier
                .user(&peer.certificates, now)
                .is_ok_and(|proxy| self.allowed_names.is_empty() || self.allowed_names.contains(&proxy.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// U14.
    #[test]
    fn u14_extra_headers() {
        let names = FrontProxyHeaders {
            extra_prefix: vec!["X-Remote-Extra-".to_owned(), "X-Other-".to_owned()],
            ..FrontProxyHeaders::default()
        };
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("x-remote-user", "jane"),
            ("x-remote-extra-scopes", "a"),
            ("x-remote-extra-scopes", "b"),
            ("x-other-scopes", "c"),
            ("x-remote-extra-", "none"),
            ("x-remote-extra-%zz%20", "raw"),
            ("x-stranger", "stays"),
        ] {
            headers.append(name, value.parse().unwrap());
        }
        let user = names.take(&mut headers).unwrap();
        let expected = [
            ("", &["none"][..]),
            ("%zz%20", &["raw"]),
            ("scopes", &["a", "b", "c"]),
        ];
        let got: Vec<(&str, Vec<&str>)> = user
            .extra
            .iter()
            .map(|(key, values)| (key.as_str(), values.iter().map(String::as_str).collect()))
            .collect();
        assert_eq!(got, expected.map(|(key, values)| (key, values.to_vec())));
        assert_eq!(headers.len(), 1);
    }
}

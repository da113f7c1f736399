//! What a caller hands over for the cluster, in the extras of the identity it impersonates.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderName, HeaderValue};
use machinery::ApiError;

const PREFIX: &str = "clusternet-";

/// A client certificate and its key, as PEM.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Identity {
    pub(crate) certificate: Vec<u8>,
    pub(crate) key: Vec<u8>,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity")
    }
}

/// What a request presents to the cluster.
#[derive(Clone, Default)]
pub(crate) struct Credentials {
    /// For TLS.
    pub(crate) identity: Option<Identity>,
    /// The authorization, and headers that are passed on with their prefix removed.
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials")
    }
}

impl Credentials {
    /// Reads extras, whatever the case of their keys (servers lower them; upstream forgets that for the last kind):
    /// `clusternet-token`, `clusternet-certificate` with `clusternet-privatekey`, and any other `clusternet-NAME`,
    /// which becomes the header `NAME`.
    ///
    /// # Errors
    /// 400 for what cannot be used.
    pub(crate) fn from_extra(extra: &BTreeMap<String, Vec<String>>) -> Result<Self, ApiError> {
        let mut credentials = Self::default();
        let (mut certificate, mut key) = (None, None);
        for (name, values) in extra {
            let lower = name.to_ascii_lowercase();
            let Some(rest) = lower.strip_prefix(PREFIX) else {
                continue;
            };
            let first = values.first().map(String::as_str).unwrap_or_default();
            match rest {
                "token" if first.is_empty() => {}
                "token" => {
                    let value = header_value(&lower, &format!("Bearer {first}"))?;
                    credentials.headers.push((http::header::AUTHORIZATION, value));
                }
                "certificate" => certificate = Some(decode(&lower, first)?),
                "privatekey" => key = Some(decode(&lower, first)?),
                _ => {
                    let header = HeaderName::try_from(rest)
                        .map_err(|_| ApiError::bad_request(format!("extra {name:?} is no header's name")))?;
                    if super::headers::belongs_to_connection(&header) {
                        return Err(ApiError::bad_request(format!(
                            "extra {name:?} may not be passed on"
                        )));
                    }
                    for value in values {
                        credentials
                            .headers
                            .push((header.clone(), header_value(&lower, value)?));
                    }
                }
            }
        }
        credentials.identity = match (certificate, key) {
            (Some(certificate), Some(key)) => Some(Identity { certificate, key }),
            (None, None) => None,
            (Some(_), None) => {
                return Err(ApiError::bad_request(
                    "clusternet-certificate needs clusternet-privatekey",
                ));
            }
            (None, Some(_)) => {
                return Err(ApiError::bad_request(
                    "clusternet-privatekey needs clusternet-certificate",
                ));
            }
        };
        Ok(credentials)
    }
}

fn header_value(name: &str, text: &str) -> Result<HeaderValue, ApiError> {
    let mut value = HeaderValue::try_from(text).map_err(|_| {
        ApiError::bad_request(format!("extra {name:?} has characters that no header may have"))
    })?;
    value.set_sensitive(true);
    Ok(value)
}

fn decode(name: &str, text: &str) -> Result<Vec<u8>, ApiError> {
    STANDARD
        .decode(text.trim())
        .map_err(|_| ApiError::bad_request(format!("extra {name:?} is not base64")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &[&str])]) -> Result<Credentials, ApiError> {
        let extra = pairs
            .iter()
            .map(|(key, values)| {
                (
                    (*key).to_owned(),
                    values.iter().map(|value| (*value).to_owned()).collect(),
                )
            })
            .collect();
        Credentials::from_extra(&extra)
    }

    fn headers(credentials: &Credentials) -> Vec<String> {
        let pairs = credentials.headers.iter();
        pairs
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect()
    }

    #[test]
    fn a_token_becomes_the_authorization() {
        for key in ["clusternet-token", "Clusternet-Token"] {
            assert_eq!(
                headers(&read(&[(key, &["abc"])]).unwrap()),
                ["authorization: Bearer abc"]
            );
        }
        assert_eq!(
            headers(&read(&[("scopes", &["x"])]).unwrap()),
            Vec::<String>::new()
        );
    }

    /// clusternet#488: upstream compares these with their case and never passes them on.
    #[test]
    fn other_extras_are_passed_on_without_their_prefix() {
        let credentials = read(&[
            ("clusternet-impersonate-group", &["a", "b"]),
            ("Clusternet-Impersonate-User", &["jane"]),
        ]);
        assert_eq!(
            headers(&credentials.unwrap()),
            [
                "impersonate-user: jane",
                "impersonate-group: a",
                "impersonate-group: b"
            ]
        );
    }

    #[test]
    fn a_certificate_needs_its_key_and_both_base64() {
        let identity = read(&[
            ("clusternet-certificate", &["QQ=="]),
            ("clusternet-privatekey", &["Qg=="]),
        ]);
        assert_eq!(identity.unwrap().identity.unwrap().key, b"B");
        for bad in [
            &[("clusternet-certificate", &["QQ=="] as &[&str])] as &[(&str, &[&str])],
            &[("clusternet-privatekey", &["QQ=="])],
            &[
                ("clusternet-certificate", &["?"]),
                ("clusternet-privatekey", &["Qg=="]),
            ],
            &[("clusternet-token", &["a\nb"])],
            &[("clusternet-", &["a"])],
            &[("clusternet-transfer-encoding", &["chunked"])],
            &[("clusternet-host", &["a"])],
        ] {
            assert_eq!(read(bad).unwrap_err().code, 400, "{bad:?}");
        }
    }
}

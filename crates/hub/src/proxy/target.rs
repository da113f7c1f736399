//! Where in a cluster a request is to go, read from its URL.

use http::Uri;
use machinery::ApiError;
use serde_json::Value;

/// What a URL asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// The cluster's own API server.
    Direct { path_and_query: String },
    /// An address that the agent reaches.
    Address {
        tls: bool,
        authority: String,
        path_and_query: String,
    },
}

/// A place to dial in a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Destination {
    pub(crate) tls: bool,
    /// Without brackets around an IPv6 address.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// As the `Host` header says it.
    pub(crate) authority: String,
    /// As sent, never decoded.
    pub(crate) path_and_query: String,
}

impl Destination {
    /// As the agent dials it.
    pub(crate) fn address(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

impl Target {
    /// Reads `…/sockets/{id}/proxy/…`. What follows the target's own parts is passed on as it was sent.
    pub(crate) fn parse(uri: &Uri) -> Result<Self, ApiError> {
        const FORMS: &str =
            "the path after \"proxy\" is none of direct/…, http/HOST[:PORT]/…, https/HOST[:PORT]/…";
        let rest = uri
            .path()
            .split_once("/proxy")
            .map(|(_, rest)| rest)
            .unwrap_or_default();
        let rest = rest.trim_start_matches('/');
        let (form, rest) = rest.split_once('/').unwrap_or((rest, ""));
        let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        match form {
            "direct" => Ok(Self::Direct {
                path_and_query: format!("/{rest}{query}"),
            }),
            "http" | "https" => {
                let rest = rest.trim_start_matches('/');
                let (authority, rest) = rest.split_once('/').unwrap_or((rest, ""));
                if authority.is_empty() {
                    return Err(ApiError::bad_request(FORMS));
                }
                Ok(Self::Address {
                    tls: form == "https",
                    authority: authority
                        .replace("%5B", "[")
                        .replace("%5D", "]")
                        .replace("%3A", ":"),
                    path_and_query: format!("/{rest}{query}"),
                })
            }
            _ => Err(ApiError::bad_request(FORMS)),
        }
    }

    /// Finds the place; `cluster` is the ManagedCluster, needed for `direct` only.
    pub(crate) fn resolve(self, id: &str, cluster: Option<&Value>) -> Result<Destination, ApiError> {
        match self {
            Self::Address {
                tls,
                authority,
                path_and_query,
            } => {
                let (host, port) = split_authority(&authority, tls)
                    .ok_or_else(|| ApiError::bad_request(format!("{authority:?} is not HOST[:PORT]")))?;
                Ok(Destination {
                    tls,
                    host,
                    port,
                    authority,
                    path_and_query,
                })
            }
            Self::Direct { path_and_query } => {
                let cluster = cluster
                    .ok_or_else(|| ApiError::not_found("clusters.clusternet.io", "managedclusters", id))?;
                let url = cluster["status"]["apiserverURL"].as_str().unwrap_or_default();
                let bad = || {
                    let text = format!("cluster {id:?} reports no usable API server URL: {url:?}");
                    ApiError::new(machinery::Reason::ServiceUnavailable, text)
                };
                let uri: Uri = url.parse().map_err(|_| bad())?;
                let tls = match uri.scheme_str() {
                    Some("https") => true,
                    Some("http") => false,
                    _ => return Err(bad()),
                };
                let authority = uri.authority().ok_or_else(bad)?.as_str().to_owned();
                let (host, port) = split_authority(&authority, tls).ok_or_else(bad)?;
                let path_and_query = format!("{}{path_and_query}", uri.path().trim_end_matches('/'));
                Ok(Destination {
                    tls,
                    host,
                    port,
                    authority,
                    path_and_query,
                })
            }
        }
    }
}

/// Host (without brackets) and port.
fn split_authority(text: &str, tls: bool) -> Option<(String, u16)> {
    let default = if tls { 443 } else { 80 };
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']')?;
        (
            host,
            if rest.is_empty() {
                None
            } else {
                Some(rest.strip_prefix(':')?)
            },
        )
    } else {
        match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        }
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
    if host.is_empty() || !host.chars().all(plain) {
        return None;
    }
    let port = match port {
        None => default,
        Some(port) => port.parse().ok().filter(|port| *port != 0)?,
    };
    Some((host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ROOT: &str = "/apis/proxies.clusternet.io/v1alpha1/sockets/abc";

    fn check(rest: &str, expected: &str) {
        let uri: Uri = format!("{ROOT}{rest}").parse().unwrap();
        let cluster = json!({"status": {"apiserverURL": "https://10.0.0.1:6443"}});
        let got = match Target::parse(&uri).and_then(|target| target.resolve("abc", Some(&cluster))) {
            Ok(found) => format!(
                "{} {} {} {}",
                found.tls,
                found.address(),
                found.authority,
                found.path_and_query
            ),
            Err(error) => format!("{}", error.code),
        };
        assert_eq!(got, expected, "{rest}");
    }

    #[test]
    fn urls_name_a_place_and_keep_path_and_query_as_sent() {
        check("/proxy/direct", "true 10.0.0.1:6443 10.0.0.1:6443 /");
        check("/proxy/direct/", "true 10.0.0.1:6443 10.0.0.1:6443 /");
        check(
            "/proxy/direct/api/v1/pods?a=b%20c&d",
            "true 10.0.0.1:6443 10.0.0.1:6443 /api/v1/pods?a=b%20c&d",
        );
        check(
            "/proxy/direct/api/v1/x%2Fy/proxy/z/",
            "true 10.0.0.1:6443 10.0.0.1:6443 /api/v1/x%2Fy/proxy/z/",
        );
        check(
            "/proxy/direct?dryRun=All",
            "true 10.0.0.1:6443 10.0.0.1:6443 /?dryRun=All",
        );
        check("/proxy/http/web.shop/a//b", "false web.shop:80 web.shop /a//b");
        check("/proxy/http/web.shop:8080", "false web.shop:8080 web.shop:8080 /");
        check("/proxy/https/10.0.0.9/x", "true 10.0.0.9:443 10.0.0.9 /x");
        check("/proxy/https/[::1]:6443/x", "true [::1]:6443 [::1]:6443 /x");
    }

    #[test]
    fn what_is_no_place_is_refused() {
        for rest in [
            "/proxy",
            "/proxy/",
            "/proxy/ftp/a/b",
            "/proxy/http",
            "/proxy/http/",
            "/proxy/http/a:b/c",
            "/proxy/http/a:0/c",
            "/proxy/http/user@host/c",
            "/proxy/https/[::1/c",
        ] {
            check(rest, "400");
        }
        let direct = Target::Direct {
            path_and_query: "/".to_owned(),
        };
        assert_eq!(direct.clone().resolve("abc", None).unwrap_err().code, 404);
        let silent = json!({"status": {}});
        let error = direct.clone().resolve("abc", Some(&silent)).unwrap_err();
        assert_eq!((error.code, error.message.contains("abc")), (503, true));
        let prefixed = json!({"status": {"apiserverURL": "http://h/k8s/"}});
        assert_eq!(
            direct.resolve("abc", Some(&prefixed)).unwrap().path_and_query,
            "/k8s/"
        );
    }
}

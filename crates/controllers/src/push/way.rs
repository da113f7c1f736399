//! How a child is reached from the parent, with the credential that it has published. Pure, but for making the client.

use std::fmt;

use api::{clusters, names, proxies, secret};
use http::{HeaderMap, HeaderName, HeaderValue};
use kubeio::{Client, Connection, Rate, Trust};
use serde_json::Value;

/// The user as whom requests come to the hub's proxy.
const VISITOR: &str = "clusternet";
const USER: HeaderName = HeaderName::from_static("impersonate-user");
/// The child's token rides along as an extra of that user.
const TOKEN: HeaderName = HeaderName::from_static("impersonate-extra-clusternet-token");

/// What of a ManagedCluster decides about the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The cluster's id.
    pub cluster_id: String,
    /// Whether its agent keeps a tunnel.
    pub use_socket: bool,
    /// How many requests its agent allows, if it says so.
    pub rate: Option<Rate>,
}

impl Link {
    /// The link to a ManagedCluster, given the namespace that it is in.
    ///
    /// # Errors
    /// It has not the id that its namespace was made for.
    pub fn of(cluster: &Value, namespace: Option<&Value>) -> Result<Self, Lack> {
        Ok(Self {
            cluster_id: clusters::trusted_id(cluster, namespace)
                .ok_or(Lack::Identity)?
                .to_owned(),
            use_socket: cluster["status"]["useSocket"] == true,
            rate: rate(&cluster["status"]),
        })
    }
}

fn rate(status: &Value) -> Option<Rate> {
    let per_second = status["kubeQPS"].as_f64().filter(|rate| *rate > 0.0)?;
    let burst = status["kubeBurst"].as_u64().filter(|burst| *burst > 0);
    // The cast saturates, which is what an absurd number deserves.
    let per_second = per_second.ceil() as u32;
    Some(Rate {
        per_second,
        burst: burst.map_or(per_second, |burst| u32::try_from(burst).unwrap_or(u32::MAX)),
    })
}

/// A way into a child. Its token is not shown.
#[derive(Clone, PartialEq, Eq)]
pub enum Way {
    /// Through the hub's proxy and the child's tunnel.
    Tunnel {
        /// The cluster's id.
        cluster_id: String,
        /// The child's token.
        token: String,
    },
    /// Straight to its API server.
    Direct {
        /// The server's URL.
        server: String,
        /// Its certificate authority, PEM.
        authority: Vec<u8>,
        /// The child's token.
        token: String,
    },
}

impl fmt::Debug for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tunnel { cluster_id, .. } => write!(f, "Tunnel({cluster_id})"),
            Self::Direct { server, .. } => write!(f, "Direct({server})"),
        }
    }
}

/// What a way lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Lack {
    /// An identity that can be trusted.
    #[error(
        "its spec.clusterId is not what its namespace was made for (the label \"clusters.clusternet.io/cluster-id\")"
    )]
    Identity,
    /// The Secret.
    #[error("its agent has not published a credential (secret \"child-cluster-deployer\")")]
    Secret,
    /// A token in it.
    #[error("the secret \"child-cluster-deployer\" has no token")]
    Token,
    /// The address in it.
    #[error(
        "the secret \"child-cluster-deployer\" has no apiserver-advertise-url, and the agent keeps no tunnel"
    )]
    Address,
    /// The authority in it: nobody is believed without.
    #[error("the secret \"child-cluster-deployer\" has no ca.crt, so its API server cannot be verified")]
    Authority,
}

impl Way {
    /// The way that a link and the published Secret allow.
    ///
    /// # Errors
    /// What is missing.
    pub fn of(link: &Link, published: Option<&Value>) -> Result<Self, Lack> {
        let published = published.ok_or(Lack::Secret)?;
        let token = secret::text(published, "token").ok_or(Lack::Token)?;
        if link.use_socket {
            return Ok(Self::Tunnel {
                cluster_id: link.cluster_id.clone(),
                token,
            });
        }
        Ok(Self::Direct {
            server: secret::text(published, names::ADVERTISE_URL_KEY).ok_or(Lack::Address)?,
            authority: secret::bytes(published, "ca.crt").ok_or(Lack::Authority)?,
            token,
        })
    }

    /// A client of the child.
    ///
    /// # Errors
    /// [`kubeio::Error::Config`] for a token, address or authority that cannot be used.
    pub fn client(&self, parent: &Client) -> Result<Client, kubeio::Error> {
        match self {
            Self::Tunnel { cluster_id, token } => {
                let path = format!(
                    "/apis/{}/sockets/{cluster_id}/proxy/direct",
                    proxies::SOCKETS.api_version()
                );
                let mut token =
                    HeaderValue::try_from(token).map_err(|error| kubeio::Error::Config(error.into()))?;
                token.set_sensitive(true);
                let headers =
                    HeaderMap::from_iter([(USER, HeaderValue::from_static(VISITOR)), (TOKEN, token)]);
                Ok(parent.through(&path, headers))
            }
            Self::Direct {
                server,
                authority,
                token,
            } => Client::from_token(&Connection {
                server: server.clone(),
                trust: Trust::Ca(authority.clone()),
                token: token.clone(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn link(mut cluster: Value) -> Link {
        cluster["spec"]["clusterId"] = json!("id");
        let namespace = json!({"metadata": {"labels": {api::labels::CLUSTER_ID: "id"}}});
        let of_another = json!({"metadata": {"labels": {api::labels::CLUSTER_ID: "other"}}});
        assert_eq!(Link::of(&cluster, Some(&of_another)), Err(Lack::Identity));
        Link::of(&cluster, Some(&namespace)).unwrap()
    }

    #[test]
    fn the_agent_says_how_many_requests_it_allows() {
        for (status, expected) in [
            (json!({"kubeQPS": 50, "kubeBurst": 100}), Some((50, 100))),
            (json!({"kubeQPS": 0.5, "kubeBurst": 1}), Some((1, 1))),
            (json!({"kubeQPS": 20}), Some((20, 20))),
            (
                json!({"kubeQPS": 1e300, "kubeBurst": u64::MAX}),
                Some((u32::MAX, u32::MAX)),
            ),
            (json!({"kubeQPS": 0, "kubeBurst": 100}), None),
            (json!({"kubeQPS": -1}), None),
            (json!({}), None),
        ] {
            let link = link(json!({"status": status}));
            let rate = link.rate.map(|rate| (rate.per_second, rate.burst));
            assert_eq!(rate, expected, "{status}");
        }
    }

    #[test]
    fn the_tunnel_needs_a_token_and_the_direct_way_all_of_it() {
        let whole = json!({"token": "dG9r", "ca.crt": "cGVt", "apiserver-advertise-url": "aHR0cHM6Ly9j"});
        let without = |key: &str| {
            let mut data = whole.clone();
            data[key] = json!(null);
            Some(json!({"data": data}))
        };
        let all = || Some(json!({"data": whole}));
        for (use_socket, published, expected) in [
            (true, all(), "Ok(Tunnel(id))"),
            (true, without("ca.crt"), "Ok(Tunnel(id))"),
            (true, without("token"), "Err(Token)"),
            (true, None, "Err(Secret)"),
            (false, all(), "Ok(Direct(https://c))"),
            (false, without("ca.crt"), "Err(Authority)"),
            (false, without("apiserver-advertise-url"), "Err(Address)"),
            (false, without("token"), "Err(Token)"),
            (false, None, "Err(Secret)"),
        ] {
            let link = link(json!({"status": {"useSocket": use_socket}}));
            let way = Way::of(&link, published.as_ref());
            assert_eq!(format!("{way:?}"), expected, "{use_socket} {published:?}");
        }
    }
}

//! Keeps the tunnel to the hub open.

use std::sync::Arc;

use ::tunnel::client::{ClientConfig, run as run_client};
use ::tunnel::{AllowList, BoxIo, DialRefusal, Dialer};
use clock::Env;
use futures::future::BoxFuture;
use http::{HeaderMap, HeaderValue, header};
use kubeio::CancellationToken;

use crate::config::Config;
use crate::error::Error;
use crate::parent::{Credential, ParentConnector};

/// A dialer that can be shared.
struct Shared(Arc<dyn Dialer>);

impl Dialer for Shared {
    fn dial(&self, proto: &str, address: &str) -> BoxFuture<'static, Result<BoxIo, DialRefusal>> {
        self.0.dial(proto, address)
    }
}

/// Keeps the tunnel open until `shutdown`.
pub(crate) async fn keep(
    config: &Config,
    cluster_id: &str,
    connector: &dyn ParentConnector,
    credential: &Credential,
    dialer: Arc<dyn Dialer>,
    env: Env,
    shutdown: CancellationToken,
) -> Result<(), Error> {
    let sockets = connector.tunnel(credential).map_err(Error::Tunnel)?;
    let client = ClientConfig {
        headers: bearer(&credential.token),
        ..ClientConfig::new(url(&config.parent_url, cluster_id), cluster_id)
    };
    let dialer = Arc::new(AllowList::new(config.dial_targets(), Shared(dialer)));
    run_client(client, sockets, dialer, env, shutdown)
        .await
        .map_err(|error| Error::Tunnel(error.into()))
}

fn bearer(token: &str) -> ::tunnel::client::HeaderProvider {
    let value = HeaderValue::try_from(format!("Bearer {token}"))
        .ok()
        .map(|mut value| {
            value.set_sensitive(true);
            value
        });
    Arc::new(move || {
        let value = value.clone();
        Box::pin(async move {
            let value = value.ok_or("the token is no header value")?;
            Ok(HeaderMap::from_iter([(header::AUTHORIZATION, value)]))
        })
    })
}

/// Where the hub takes this cluster's tunnel.
fn url(parent: &str, cluster_id: &str) -> String {
    format!(
        "{}/apis/{}/{}/sockets/{cluster_id}",
        parent.trim_end_matches('/'),
        api::proxies::GROUP,
        api::proxies::VERSION
    )
}

#[cfg(test)]
mod tests {
    #[test]
    fn u15_exactly_one_slash_between_the_parts() {
        let expected = "https://p:6443/x/apis/proxies.clusternet.io/v1alpha1/sockets/id-1";
        for parent in ["https://p:6443/x", "https://p:6443/x/", "https://p:6443/x//"] {
            assert_eq!(super::url(parent, "id-1"), expected);
        }
    }
}

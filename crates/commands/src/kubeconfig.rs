//! `kubeconfig CLUSTER`: a kubeconfig that reaches a member through the hub.
//!
//! It holds the hub's certificate authority, an hour's token of the account that may do nothing but knock at the
//! proxy's door, and an hour's token of the member's own account, in the form that existing kubeconfigs have
//! (`spec/clusternet.md` 7.7).

use std::io::Write;

use api::kubernetes::{SECRETS, SERVICE_ACCOUNTS};
use api::names::{APP_DEPLOYER, CHILD_DEPLOYER_SECRET, HUB_PROXY, SYSTEM_NAMESPACE};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Request;
use machinery::{ApiError, meta};
use serde_json::{Value, json};

use crate::clusters::find;
use crate::hub::Door;
use crate::{Error, Hub};

const SECONDS: u32 = 3_600;

/// Prints a kubeconfig for a cluster.
///
/// # Errors
/// [`Error`] if there is no such cluster, or no credential for it can be had.
pub async fn kubeconfig(hub: &Hub, cluster: &str, out: &mut (dyn Write + Send)) -> Result<(), Error> {
    let found = find(hub, cluster).await?;
    let id = found["spec"]["clusterId"].as_str().unwrap_or_default();
    let namespace = meta::namespace(&found);
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {"expirationSeconds": SECONDS},
    });
    let door = hub
        .client
        .create_subresource(
            &SERVICE_ACCOUNTS,
            Some(SYSTEM_NAMESPACE),
            HUB_PROXY,
            "token",
            &request,
        )
        .await
        .map_err(Error::hub(format!(
            "no token of the hub's account {HUB_PROXY:?} can be had"
        )))?;
    let secret = hub
        .client
        .get(&SECRETS, Some(namespace), CHILD_DEPLOYER_SECRET)
        .await
        .map_err(Error::hub(format!(
            "cluster {cluster:?} has not published a credential yet"
        )))?;
    let stored = secret["data"]["token"]
        .as_str()
        .and_then(|token| STANDARD.decode(token).ok());
    let stored = stored
        .and_then(|token| String::from_utf8(token).ok())
        .ok_or_else(|| {
            Error::Missing(format!(
                "the secret {namespace}/{CHILD_DEPLOYER_SECRET} holds no token"
            ))
        })?;
    let proxy = format!("/apis/proxies.clusternet.io/v1alpha1/sockets/{id}/proxy/direct");
    let member = member_token(hub, cluster, &proxy, stored.trim(), &request).await?;
    let document = document(hub, cluster, &proxy, &token(&door)?, &member);
    write!(out, "{}", codec::yaml::to_string(&document))?;
    Ok(())
}

fn token(answer: &Value) -> Result<String, Error> {
    let token = answer["status"]["token"].as_str();
    token
        .map(ToOwned::to_owned)
        .ok_or_else(|| Error::Missing("the answer holds no token".into()))
}

/// Asks the member, through the hub, for a token that ends soon.
async fn member_token(
    hub: &Hub,
    cluster: &str,
    proxy: &str,
    stored: &str,
    request: &Value,
) -> Result<String, Error> {
    let path = format!(
        "{proxy}{}/token",
        SERVICE_ACCOUNTS.path(Some(SYSTEM_NAMESPACE), Some(APP_DEPLOYER))
    );
    let doing = format!("cluster {cluster:?} gives no token through the hub");
    let request = Request::post(path)
        .header("content-type", "application/json")
        .header("impersonate-user", "clusternet")
        .header("impersonate-extra-clusternet-token", stored)
        .body(request.to_string().into_bytes())
        .map_err(|error| Error::Missing(format!("{doing}: {error}")))?;
    let response = hub
        .client
        .request(request)
        .await
        .map_err(Error::hub(doing.clone()))?;
    if !response.status().is_success() {
        let error = ApiError::from_body(response.status().as_u16(), response.body());
        return Err(Error::Hub {
            doing,
            source: kubeio::Error::Api(error),
        });
    }
    let answer = serde_json::from_slice(response.body())
        .map_err(|error| Error::Missing(format!("{doing}: the answer is no JSON: {error}")))?;
    token(&answer)
}

fn document(hub: &Hub, cluster: &str, proxy: &str, door: &str, member: &str) -> Value {
    let Door { server, authority } = &hub.door;
    let authority = authority.as_ref().map(|pem| STANDARD.encode(pem));
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": cluster,
        "clusters": [{"name": cluster, "cluster": {
            "server": format!("{server}{proxy}"),
            "certificate-authority-data": authority,
        }}],
        "users": [{"name": cluster, "user": {
            "token": door, "as": "clusternet", "as-user-extra": {"clusternet-token": [member]},
        }}],
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": cluster}}],
    })
}

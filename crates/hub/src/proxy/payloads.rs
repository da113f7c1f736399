//! What a cluster's Descriptions refer to, for the agent of that cluster.
//!
//! Payloads are kept once for all clusters. Which of them a cluster may have is what the Descriptions in the namespace
//! that was made for it say; that a caller is this cluster is RBAC on `sockets/payloads` by name.

use api::apps::DESCRIPTIONS;
use api::entry::{self, Digest, Entry, Reference};
use api::payloads::{self, NAMESPACE, PAYLOADS};
use apiserver::Body;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, Uri};
use kubeio::Client;
use machinery::{ApiError, Reason, meta};
use serde_json::Value;

use super::Clusters;
use crate::respond;

/// The largest payload that is handed out.
const LARGEST: u64 = 8 << 20;

/// Answers `GET sockets/{id}/payloads/{digest}?description=NAME`.
pub(super) async fn get(
    client: &Client,
    clusters: &Clusters,
    id: &str,
    digest: &str,
    uri: &Uri,
) -> Result<Response<Body>, ApiError> {
    let digest: Digest = digest
        .parse()
        .map_err(|why: entry::InvalidDigest| ApiError::bad_request(why.to_string()))?;
    let name = description_name(uri).ok_or_else(|| {
        ApiError::bad_request("the query names no Description: ?description=NAME is missing")
    })?;
    let cluster = clusters
        .find(id)
        .await?
        .ok_or_else(|| ApiError::not_found("clusters.clusternet.io", "managedclusters", id))?;
    let namespace = meta::namespace(&cluster);
    let description = client
        .get_opt(&DESCRIPTIONS, Some(namespace), name)
        .await
        .map_err(respond::from_parent)?
        .ok_or_else(|| ApiError::not_found(DESCRIPTIONS.group.as_ref(), &DESCRIPTIONS.plural, name))?;
    let reference = reference(&description, &digest)
        .ok_or_else(|| ApiError::not_found(PAYLOADS.group.as_ref(), &PAYLOADS.plural, &digest.to_string()))?;
    let bytes = read(client, &reference).await?;
    let mut response = Response::new(Body::from(bytes));
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    Ok(response)
}

/// The Description that a query names. Names need no percent-encoding.
fn description_name(uri: &Uri) -> Option<&str> {
    let pairs = uri.query()?.split('&');
    let named = pairs.filter_map(|pair| pair.strip_prefix("description="));
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
    named
        .into_iter()
        .next()
        .filter(|name| !name.is_empty() && name.bytes().all(plain))
}

/// What a Description says of a payload, if it refers to it.
fn reference(description: &Value, digest: &Digest) -> Option<Reference> {
    entry::entries(description).find_map(|entry| match entry {
        Entry::Reference(reference) if reference.digest == *digest => Some(reference),
        Entry::Reference(_) | Entry::Object(_) | Entry::Sealed(_) => None,
    })
}

async fn read(client: &Client, reference: &Reference) -> Result<Vec<u8>, ApiError> {
    let Reference { digest, size, .. } = reference;
    if *size > LARGEST {
        return Err(ApiError::bad_request(format!(
            "payload {digest} is said to have {size} bytes (limit {LARGEST})"
        )));
    }
    let mut bytes = Vec::new();
    for index in 0..payloads::count(*size) {
        let name = payloads::name(digest, index);
        let piece = client
            .get_opt(&PAYLOADS, Some(NAMESPACE), &name)
            .await
            .map_err(respond::from_parent)?;
        let data = piece.as_ref().and_then(payloads::data).ok_or_else(|| {
            ApiError::new(
                Reason::ServiceUnavailable,
                format!("piece {name} of payload {digest} is not there, or no longer"),
            )
        })?;
        bytes.extend(data);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use api::feed::Feed;
    use serde_json::json;

    use super::*;

    #[test]
    fn reads_which_description_is_meant() {
        for (query, expected) in [
            ("?description=app-1.x-generic", Some("app-1.x-generic")),
            ("?a=b&description=d", Some("d")),
            ("?description=", None),
            ("?description=..%2fx", None),
            ("?name=d", None),
            ("", None),
        ] {
            let uri: Uri = format!("/x{query}").parse().unwrap();
            assert_eq!(description_name(&uri), expected, "{query}");
        }
    }

    #[test]
    fn only_what_a_description_refers_to_is_its_own() {
        let (ours, other) = (Digest::of(b"a"), Digest::of(b"b"));
        let entry = Entry::Reference(Reference {
            digest: ours.clone(),
            size: 1,
            object: Feed {
                api_version: "v1".to_owned(),
                kind: "ConfigMap".to_owned(),
                namespace: String::new(),
                name: "a".to_owned(),
            },
        });
        let description = json!({"spec": {"raw": ["?", entry.to_raw()]}});
        assert_eq!(reference(&description, &ours).map(|it| it.size), Some(1));
        assert_eq!(reference(&description, &other), None);
    }
}

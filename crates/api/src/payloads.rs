//! `apps.tombolo.io/v1alpha1`: what clusters share of their Descriptions, kept once.

use k8s_openapi::ByteString;
use machinery::ApiResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::crd::{Definition, age, text};
use crate::entry::Digest;
use crate::names::RESERVED_NAMESPACE;
use crate::object::kind;
use crate::secret;

/// The API group.
pub const GROUP: &str = "apps.tombolo.io";
/// Its version.
pub const VERSION: &str = "v1alpha1";
/// Payloads: pieces of objects' JSON.
pub const PAYLOADS: ApiResource = ApiResource::namespaced(GROUP, VERSION, "payloads", "Payload");
/// Where they are.
pub const NAMESPACE: &str = RESERVED_NAMESPACE;
/// The bytes of a piece: in base64 and with what is around it, it fits into etcd.
pub const PIECE: usize = 900 << 10;

kind! {
    /// A piece of an object's JSON that Descriptions refer to by its digest. Made by the controllers; not to be edited.
    Payload {
        /// The piece.
        spec: PayloadSpec,
    }
}

/// A piece of an object's JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PayloadSpec {
    /// `sha256:` and the digest of the whole, in hexadecimal digits.
    pub digest: String,
    /// Which piece it is; the first is 0.
    #[schemars(extend("minimum" = 0))]
    pub index: i32,
    /// The bytes.
    #[schemars(schema_with = "crate::crd::bytes")]
    pub data: ByteString,
}

/// What is said about the kinds beside their types.
pub(crate) const DEFINITIONS: &[Definition] = &[Definition {
    resource: PAYLOADS,
    short_names: &[],
    categories: &["clusternet"],
    status: false,
    columns: &[text("DIGEST", ".spec.digest"), age("AGE")],
    schema: Payload::json_schema,
}];

/// How many pieces so many bytes have.
pub fn count(size: u64) -> u64 {
    size.div_ceil(PIECE as u64)
}

/// The name of a piece.
pub fn name(digest: &Digest, index: u64) -> String {
    format!("sha256-{}-{index}", digest.hex())
}

/// The digest that a piece's name tells.
pub fn digest_of_name(name: &str) -> Option<Digest> {
    let (hex, index) = name.strip_prefix("sha256-")?.split_once('-')?;
    index.parse::<u64>().ok()?;
    format!("sha256:{hex}").parse().ok()
}

/// The pieces of some bytes, as objects, in order.
pub fn pieces(digest: &Digest, bytes: &[u8]) -> Vec<Value> {
    let piece = |(index, data): (usize, &[u8])| {
        json!({
            "apiVersion": PAYLOADS.api_version(), "kind": PAYLOADS.kind,
            "metadata": {"namespace": NAMESPACE, "name": name(digest, index as u64)},
            "spec": {"digest": digest.to_string(), "index": index, "data": secret::encode(data)},
        })
    };
    bytes.chunks(PIECE).enumerate().map(piece).collect()
}

/// The bytes of a piece.
pub fn data(piece: &Value) -> Option<Vec<u8>> {
    secret::decode(&piece["spec"]["data"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_fit_and_make_the_whole() {
        for size in [1, PIECE, PIECE + 1, 3 * PIECE] {
            let bytes: Vec<u8> = (0..size).map(|index| (index % 251) as u8).collect();
            let digest = Digest::of(&bytes);
            let pieces = pieces(&digest, &bytes);
            assert_eq!(pieces.len() as u64, count(size as u64), "{size}");
            let whole: Vec<u8> = pieces.iter().flat_map(|piece| data(piece).unwrap()).collect();
            assert_eq!(whole, bytes);
            for (index, piece) in pieces.iter().enumerate() {
                assert!(piece.to_string().len() < 1_400_000);
                let named = piece["metadata"]["name"].as_str().unwrap();
                assert_eq!(named, name(&digest, index as u64));
                assert_eq!(digest_of_name(named).as_ref(), Some(&digest));
            }
        }
        for other in [
            "",
            "sha256-1-0",
            "web",
            &format!("sha256-{}", Digest::of(b"").hex()),
        ] {
            assert_eq!(digest_of_name(other), None, "{other}");
        }
    }
}

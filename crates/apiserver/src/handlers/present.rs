//! Objects and lists in the form that the client accepts.

use std::collections::BTreeMap;

use bytes::{BufMut, Bytes, BytesMut};
use http::{Response, StatusCode};
use machinery::ApiError;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use source::Object;

use super::Call;
use crate::body::Body;
use crate::negotiate::{Encoding, Form};
use crate::object;
use crate::registry::Served;
use crate::respond;
use crate::table::{self, IncludeObject};

/// The number of an object's protobuf form.
const PROTOBUF_FORM: usize = 0;
/// The number of an object's metadata as JSON.
const METADATA_FORM: usize = 1;

/// A stored object.
pub(super) fn stored(
    call: &Call<'_>,
    status: StatusCode,
    object: &Object,
) -> Result<Response<Body>, ApiError> {
    let served = &call.served;
    let body = match (call.accepted.form, call.accepted.encoding) {
        _ if call.accepted.beta => return tree(call, status, object::parse(served, &object.json)?),
        (Form::Object, Encoding::Json) => match object::in_version(served, object) {
            std::borrow::Cow::Borrowed(_) => object.json.clone(),
            std::borrow::Cow::Owned(bytes) => Bytes::from(bytes),
        },
        (Form::Object, Encoding::Protobuf) => protobuf(served, object)?,
        (Form::Metadata, Encoding::Json) => metadata(object),
        _ => return tree(call, status, object::parse(served, &object.json)?),
    };
    Ok(respond::bytes(
        status,
        call.accepted.encoding.content_type(),
        body,
    ))
}

/// An object that is not stored as it is answered.
pub(super) fn tree(call: &Call<'_>, status: StatusCode, value: Value) -> Result<Response<Body>, ApiError> {
    let value = in_form(call, value)?;
    let body = respond::encode(call.accepted.encoding, &call.accepted.in_version(&value))?;
    Ok(respond::bytes(
        status,
        call.accepted.encoding.content_type(),
        body,
    ))
}

fn in_form(call: &Call<'_>, value: Value) -> Result<Value, ApiError> {
    Ok(match call.accepted.form {
        Form::Object => value,
        Form::Metadata => partial(&value),
        Form::Table => {
            let revision = value["metadata"]["resourceVersion"].clone();
            let include = IncludeObject::from_query(call.query)?;
            let now = call.server.env().now();
            let metadata = json!({"resourceVersion": revision});
            if call.info.subresource == "scale" {
                table::scale(value, metadata, include, now)
            } else {
                table::table(&call.served, [value], metadata, include, now, true)
            }
        }
    })
}

/// Which page a list is.
pub(super) struct ListMeta {
    pub(super) revision: String,
    pub(super) token: Option<String>,
    pub(super) remaining: Option<usize>,
}

impl ListMeta {
    fn to_value(&self) -> Value {
        let mut meta = json!({"resourceVersion": self.revision});
        if let Some(token) = &self.token {
            meta["continue"] = json!(token);
        }
        if let Some(remaining) = self.remaining {
            meta["remainingItemCount"] = json!(remaining);
        }
        meta
    }
}

/// A list of stored objects.
pub(super) fn list(
    call: &Call<'_>,
    objects: &[std::sync::Arc<Object>],
    meta: &ListMeta,
) -> Result<Response<Body>, ApiError> {
    let served = &call.served;
    let content_type = call.accepted.encoding.content_type();
    let body = match (call.accepted.form, call.accepted.encoding) {
        (Form::Object, Encoding::Json) => stitch(
            &served.api_version,
            &served.list_kind,
            meta,
            objects.iter().map(|object| object::in_version(served, object)),
        ),
        (Form::Metadata, Encoding::Json) if !call.accepted.beta => stitch(
            "meta.k8s.io/v1",
            "PartialObjectMetadataList",
            meta,
            objects.iter().map(|object| metadata(object)),
        ),
        (form, encoding) => {
            let mut items = Vec::with_capacity(objects.len());
            for object in objects {
                items.push(object::parse(served, &object.json)?);
            }
            let value = match form {
                Form::Table => {
                    let include = IncludeObject::from_query(call.query)?;
                    table::table(
                        served,
                        items,
                        meta.to_value(),
                        include,
                        call.server.env().now(),
                        true,
                    )
                }
                Form::Metadata => json!({
                    "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList",
                    "metadata": meta.to_value(), "items": items.iter().map(partial).collect::<Vec<_>>(),
                }),
                Form::Object => json!({
                    "apiVersion": served.api_version.as_str(), "kind": served.list_kind.as_str(),
                    "metadata": meta.to_value(), "items": items,
                }),
            };
            respond::encode(encoding, &call.accepted.in_version(&value))?
        }
    };
    Ok(respond::large_bytes(content_type, body, call.headers))
}

/// Writes a list around items that are bytes already.
fn stitch<I, B>(api_version: &str, kind: &str, meta: &ListMeta, items: I) -> Bytes
where
    I: ExactSizeIterator<Item = B> + Clone,
    B: AsRef<[u8]>,
{
    let size: usize = items.clone().take(1).map(|item| item.as_ref().len() + 64).sum();
    let mut body = BytesMut::with_capacity(256 + size * items.len());
    body.put_slice(
        format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":").as_bytes(),
    );
    body.put_slice(meta.to_value().to_string().as_bytes());
    body.put_slice(b",\"items\":[");
    for (index, item) in items.enumerate() {
        if index > 0 {
            body.put_u8(b',');
        }
        body.put_slice(item.as_ref());
    }
    body.put_slice(b"]}\n");
    body.freeze()
}

/// A stored object in protobuf, made once for its stored version.
pub(super) fn protobuf(served: &Served, object: &Object) -> Result<Bytes, ApiError> {
    let encode = || respond::encode(Encoding::Protobuf, &object::parse(served, &object.json)?);
    if !object::is_native(served, object) {
        return encode();
    }
    let mut failure = None;
    let bytes = object.forms.get_or_encode(PROTOBUF_FORM, || match encode() {
        Ok(bytes) => bytes,
        Err(error) => {
            failure = Some(error);
            Bytes::new()
        }
    });
    match failure {
        Some(error) => Err(error),
        None if bytes.is_empty() => encode(),
        None => Ok(bytes),
    }
}

/// A stored object's metadata, made once.
pub(super) fn metadata(object: &Object) -> Bytes {
    object
        .forms
        .get_or_encode(METADATA_FORM, || metadata_of(&object.json))
}

/// The metadata of an object's JSON as `PartialObjectMetadata`.
pub(super) fn metadata_of(json: &[u8]) -> Bytes {
    #[derive(Deserialize)]
    struct Outer<'a> {
        #[serde(borrow)]
        metadata: Option<&'a RawValue>,
    }
    let outer: Result<Outer<'_>, _> = serde_json::from_slice(json);
    let metadata = outer
        .ok()
        .and_then(|outer| outer.metadata)
        .map_or("{}", RawValue::get);
    Bytes::from(format!(
        "{{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{metadata}}}"
    ))
}

/// An object's metadata as `PartialObjectMetadata`.
pub(super) fn partial(value: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": value["metadata"],
    })
}

/// The answer to a delete that removed the object at once.
pub(super) fn deleted(call: &Call<'_>, name: &str, uid: &str) -> Result<Response<Body>, ApiError> {
    let mut details: BTreeMap<&str, &str> = BTreeMap::from([("name", name), ("uid", uid)]);
    details.insert("kind", &call.served.plural);
    if !call.served.group.is_empty() {
        details.insert("group", &call.served.group);
    }
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
    });
    let body = respond::encode(call.accepted.encoding, &status)?;
    Ok(respond::bytes(
        StatusCode::OK,
        call.accepted.encoding.content_type(),
        body,
    ))
}

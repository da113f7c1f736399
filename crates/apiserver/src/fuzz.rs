//! Bodies of fuzz targets: each takes any bytes and must not panic.

use http::Method;

use crate::decode::{BodyFormat, decode};
use crate::handlers::list_token;
use crate::negotiate::{Offer, accepts_gzip, negotiate};
use crate::options::{DeleteOptions, ForwardOptions, ListOptions, LogOptions, WriteOptions, Writes};
use crate::query::Query;
use crate::registry::Registry;
use crate::request_info::RequestInfo;
use crate::selection::Selection;

/// A request's method and address (`METHOD PATH?QUERY`), its options and its page token.
pub fn fuzz_request(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (method, address) = text.split_once(' ').unwrap_or(("GET", &text));
    let method = Method::from_bytes(method.as_bytes()).unwrap_or(Method::GET);
    let (path, query) = address.split_once('?').unwrap_or((address, ""));
    let query = Query::parse(query);
    let info = RequestInfo::parse(&method, path, &query);
    let snapshot = Registry::new().snapshot();
    let served = snapshot
        .find(&info.group, &info.version, &info.resource)
        .or_else(|| snapshot.find("", "v1", "pods"));
    for watch in [false, true] {
        if let (Some(served), Ok(options)) = (served, ListOptions::of_query(watch, &query)) {
            drop(Selection::new(served, &options));
        }
    }
    for writes in [Writes::Create, Writes::Apply] {
        drop(WriteOptions::of_query(writes, &query));
    }
    drop(DeleteOptions::of_query(&query));
    drop(LogOptions::of_query("", &query));
    drop(ForwardOptions::of_query(&query));
    list_token(query.get("continue").unwrap_or_default());
}

/// A body, which may be a delete's options: its first byte chooses the format.
pub fn fuzz_body(bytes: &[u8]) {
    let Some((first, body)) = bytes.split_first() else {
        return;
    };
    let format = match first % 3 {
        0 => BodyFormat::Json,
        1 => BodyFormat::Yaml,
        _ => BodyFormat::Protobuf,
    };
    if let Ok((value, _)) = decode(format, body) {
        drop(DeleteOptions::of_body(&value));
    }
}

/// The headers `Accept` and `Accept-Encoding`.
pub fn fuzz_accept(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for protobuf in [true, false] {
        let offer = Offer {
            protobuf,
            forms: true,
        };
        drop(negotiate(&text, offer));
    }
    accepts_gzip(&text);
}

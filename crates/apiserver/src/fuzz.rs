//! Bodies of fuzz targets: each takes any bytes and must not panic.

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde_json::{Value, json};

use crate::decode::{BodyFormat, decode};
use crate::handlers::list_token;
use crate::impersonate;
use crate::negotiate::{Offer, accepts_gzip, negotiate};
use crate::options::{
    DeleteOptions, ForwardOptions, ListOptions, LogOptions, Match, Propagation, WriteOptions, Writes,
    get_revision,
};
use crate::query::Query;
use crate::registry::Registry;
use crate::request_info::RequestInfo;
use crate::selection::Selection;
use crate::table::IncludeObject;

pub use crate::delegated::fuzz::fuzz_trust;
pub use crate::handlers::fuzz::fuzz_object;

/// Sets places in a value, one a line: a JSON pointer, a space and JSON, or else a text. What is missing on the way
/// there is made. (Mutated lines still make an object, which mutated JSON seldom does.)
pub fn edit(value: &mut Value, text: &str) {
    for line in text.lines() {
        let (pointer, new) = line.split_once(' ').unwrap_or((line, "null"));
        let new = serde_json::from_str(new).unwrap_or_else(|_| Value::from(new));
        *place(value, pointer) = new;
    }
}

fn place<'a>(mut value: &'a mut Value, pointer: &str) -> &'a mut Value {
    for token in pointer.split('/').skip(1) {
        let index = token.parse().ok().filter(|index: &usize| *index < 8);
        value = match index.filter(|_| value.is_array() || value.is_null()) {
            Some(index) => {
                if value.is_null() {
                    *value = json!([]);
                }
                let list = value.as_array_mut().expect("it is one, or was made one");
                list.resize(list.len().max(index + 1), Value::Null);
                &mut list[index]
            }
            None => {
                if !value.is_object() {
                    *value = json!({});
                }
                &mut value[token.replace("~1", "/")]
            }
        };
    }
    value
}

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

/// A request's headers, one on a line: whom it asks to act for has a name, nothing of it breaks a header's line, and
/// none of what asked is left.
pub fn fuzz_impersonation(bytes: &[u8]) {
    let mut headers = HeaderMap::new();
    for line in bytes.split(|byte| *byte == b'\n').take(1_000) {
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let (name, value) = line.split_at(colon);
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
            headers.append(name, value);
        }
    }
    let Ok(wanted) = impersonate::take(&mut headers) else {
        return;
    };
    assert!(
        headers
            .keys()
            .all(|name| !name.as_str().starts_with("impersonate-"))
    );
    let Some(impersonate::Wanted {
        name,
        uid,
        groups,
        extra,
    }) = wanted
    else {
        return;
    };
    assert!(!name.is_empty());
    let texts = groups.iter().chain(extra.keys()).chain(extra.values().flatten());
    for text in [&name, &uid].into_iter().chain(texts) {
        assert!(!text.contains(['\r', '\n', '\0']), "{text:?}");
    }
}

/// A query on the first line and a delete's body in JSON below it: what is accepted keeps the rules of its options, and
/// a delete's options say the same in either way.
pub fn fuzz_options(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (query, body) = text.split_once('\n').unwrap_or((&text, ""));
    let query = Query::parse(query);
    for watch in [false, true] {
        if let Ok(options) = ListOptions::of_query(watch, &query) {
            let exact = options.rule == Some(Match::Exact);
            assert!(!exact || !watch && !matches!(options.revision.as_str(), "" | "0"));
            assert!(watch || options.initial.is_none());
            assert!(options.initial.is_none() || options.rule == Some(Match::NotOlderThan));
        }
    }
    for writes in [Writes::Create, Writes::Update, Writes::Patch, Writes::Apply] {
        if let Ok(options) = WriteOptions::of_query(writes, &query) {
            assert!(options.manager.len() <= 128 && !options.manager.contains(char::is_control));
            assert!(writes != Writes::Apply || !options.manager.is_empty());
            assert!(writes != Writes::Patch || !options.force);
        }
    }
    if let Ok(options) = LogOptions::of_query("p", &query) {
        let at_least = |number: Option<i64>, least| number.is_none_or(|number| number >= least);
        assert!(at_least(options.tail_lines, 0) && at_least(options.limit_bytes, 1));
        assert!(at_least(options.since_seconds, 1));
    }
    if let Ok(options) = ForwardOptions::of_query(&query) {
        let asked = query.all("ports").flat_map(|list| list.split(','));
        assert_eq!(options.ports.len(), asked.count());
    }
    drop(get_revision(&query));
    drop(IncludeObject::from_query(&query));
    let of_body = serde_json::from_str(body)
        .ok()
        .map(|body| DeleteOptions::of_body(&body));
    for options in of_body
        .into_iter()
        .chain([DeleteOptions::of_query(&query)])
        .flatten()
    {
        assert_eq!(DeleteOptions::of_body(&delete_body(&options)), Ok(options));
    }
}

/// A delete's options as a body.
fn delete_body(options: &DeleteOptions) -> Value {
    let DeleteOptions {
        uid,
        revision,
        propagation,
        dry_run,
    } = options;
    let policy = propagation.map(|propagation| match propagation {
        Propagation::Background => "Background",
        Propagation::Foreground => "Foreground",
        Propagation::Orphan => "Orphan",
    });
    json!({
        "kind": "DeleteOptions", "preconditions": {"uid": uid, "resourceVersion": revision},
        "propagationPolicy": policy, "dryRun": if *dry_run { json!(["All"]) } else { json!([]) },
    })
}

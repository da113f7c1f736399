//! Bodies for fuzzing: each takes any bytes and must not panic, whatever they are.

use serde_json::Value;

use crate::{protobuf, yaml};

/// Reads YAML; what was read must be written and read again to the same value.
pub fn fuzz_yaml(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    // the answer is not looked at: only that the lenient reading ends
    drop(yaml::parse_with(text, yaml::Duplicates::LastWins));
    let Ok(documents) = yaml::parse(text) else { return };
    for document in documents {
        let written = yaml::to_string(&document);
        match yaml::parse_one(&written) {
            Ok(again) => assert!(same(&again, &document), "{document} was written as {written:?}"),
            // keys past 1,024 characters cannot be read back: the limit is YAML's
            Err(error) => assert!(written.len() > 1_000, "{error} in {written:?}"),
        }
    }
}

/// Whether two values are equal, where a whole float counts as an integer: Go writes both alike.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        (a, b) => a == b,
    }
}

/// Decodes a protobuf body; what was decoded must be encoded and decoded again. Also splits it as a watch stream.
pub fn fuzz_protobuf(bytes: &[u8]) {
    // the answer is not looked at: only that there is one
    drop(protobuf::next_watch_frame(bytes));
    let Ok(object) = protobuf::decode(bytes) else {
        return;
    };
    match protobuf::encode(&object) {
        Ok(encoded) => assert!(protobuf::decode(&encoded).is_ok(), "{object}"),
        // a body in JSON inside the envelope may be anything
        Err(error) => assert!(
            !matches!(error, protobuf::Error::NoMagic | protobuf::Error::Damaged),
            "{object}"
        ),
    }
}

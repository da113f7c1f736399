//! Bytes as the wire has them, in Secrets and in statuses that carry credentials: base64.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// The bytes of a value; `None` if it is no base64 text.
pub fn decode(value: &Value) -> Option<Vec<u8>> {
    STANDARD.decode(value.as_str()?).ok()
}

/// A text that has something in it, of a Secret's data.
pub fn text(secret: &Value, key: &str) -> Option<String> {
    String::from_utf8(bytes(secret, key)?).ok()
}

/// Bytes of a Secret's data, if there are any.
pub fn bytes(secret: &Value, key: &str) -> Option<Vec<u8>> {
    decode(&secret["data"][key]).filter(|bytes| !bytes.is_empty())
}

/// Bytes as the wire has them.
pub fn encode(bytes: impl AsRef<[u8]>) -> String {
    STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_is_there_and_readable_counts() {
        let secret =
            json!({"data": {"good": encode("word"), "bytes": "//8=", "empty": "", "junk": "?", "number": 1}});
        for (key, as_bytes, as_text) in [
            ("good", Some(b"word".to_vec()), Some("word")),
            ("bytes", Some(vec![0xff, 0xff]), None),
            ("empty", None, None),
            ("junk", None, None),
            ("number", None, None),
            ("missing", None, None),
        ] {
            assert_eq!(bytes(&secret, key), as_bytes, "{key}");
            assert_eq!(text(&secret, key).as_deref(), as_text, "{key}");
        }
    }
}

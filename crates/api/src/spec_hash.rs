//! `status.specHash`: the number that says whether a spec is the one last decided on.

use serde_json::{Map, Value};

const OFFSET: u32 = 2_166_136_261;
const PRIME: u32 = 16_777_619;

/// The order in which the peers' scheduler writes known fields. Others follow in the order of their names.
const FIELD_ORDER: [&str; 30] = [
    "schedulerName",
    "schedulingBySubGroup",
    "schedulingStrategy",
    "dividingScheduling",
    "priority",
    "preemptionPolicy",
    "subscribers",
    "clusterTolerations",
    "feeds",
    "clusterAffinity",
    "weight",
    "subGroupStrategy",
    "type",
    "dynamicDividing",
    "matchLabels",
    "matchExpressions",
    "kind",
    "apiVersion",
    "namespace",
    "name",
    "key",
    "operator",
    "value",
    "values",
    "effect",
    "tolerationSeconds",
    "strategy",
    "topologySpreadConstraints",
    "preferredClusters",
    "minClusters",
];

/// A stable hash of a Subscription's spec; absent, null and default-empty fields make no difference.
///
/// It is 32-bit FNV-1a over the text of the bytes of the spec's JSON, which gives the same number as the peers'
/// scheduler for ordinary specs, so that a change of scheduler re-schedules nothing.
pub fn of(spec: &Value) -> u64 {
    let mut json = String::new();
    write(spec, FieldOrder::Known, &mut json);
    let mut hash = Fnv(OFFSET);
    hash.update(b"([]uint8)[");
    for (index, byte) in json.bytes().enumerate() {
        if index > 0 {
            hash.update(b" ");
        }
        hash.update_number(byte);
    }
    hash.update(b"]");
    u64::from(hash.0)
}

struct Fnv(u32);

impl Fnv {
    fn update(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u32::from(*byte)).wrapping_mul(PRIME);
        }
    }

    /// Its digits.
    fn update_number(&mut self, number: u8) {
        let digits = [number / 100, number / 10 % 10, number % 10].map(|digit| b'0' + digit);
        let leading = digits.iter().take(2).take_while(|digit| **digit == b'0').count();
        self.update(&digits[leading..]);
    }
}

#[derive(Clone, Copy)]
enum FieldOrder {
    /// A struct of the API.
    Known,
    /// A map of the user's, such as `matchLabels`.
    Sorted,
}

fn write(value: &Value, order: FieldOrder, out: &mut String) {
    match value {
        Value::Object(map) => write_object(map, order, out),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write(item, FieldOrder::Known, out);
            }
            out.push(']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            out.push_str(&value.to_string())
        }
    }
}

fn write_object(map: &Map<String, Value>, order: FieldOrder, out: &mut String) {
    let rank = |key: &str| match order {
        FieldOrder::Known => FIELD_ORDER
            .iter()
            .position(|known| *known == key)
            .unwrap_or(FIELD_ORDER.len()),
        FieldOrder::Sorted => 0,
    };
    let mut fields: Vec<(&String, &Value)> = map
        .iter()
        .filter(|(key, value)| !is_default(key, value))
        .collect();
    fields.sort_by(|(a, _), (b, _)| (rank(a), a).cmp(&(rank(b), b)));
    out.push('{');
    for (index, (key, value)) in fields.into_iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        out.push_str(&Value::String(key.clone()).to_string());
        out.push(':');
        let inner = if key == "matchLabels" {
            FieldOrder::Sorted
        } else {
            FieldOrder::Known
        };
        write(value, inner, out);
    }
    out.push('}');
}

/// Whether the API's own encoder would leave the field out.
fn is_default(key: &str, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Number(number) => key == "weight" && number.as_u64() == Some(0),
        Value::Array(items) => items.is_empty() && !matches!(key, "subscribers" | "feeds"),
        Value::String(_) | Value::Bool(_) | Value::Object(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn vector() -> Value {
        json!({
            "schedulerName": "default", "schedulingStrategy": "Replication",
            "subscribers": [{"clusterAffinity": {"matchLabels": {"cluster-name": "abc"}}}],
            "feeds": [{"name": "bar", "namespace": "foo", "apiVersion": "abc.com/v1", "kind": "Demo"}],
        })
    }

    #[test]
    fn gives_the_peers_number() {
        assert_eq!(of(&vector()), 2_608_449_479, "Q14");
    }

    #[test]
    fn sees_changes_and_only_changes() {
        let mut same = vector();
        same["clusterTolerations"] = json!([]);
        same["subscribers"][0]["weight"] = json!(0);
        same["priority"] = Value::Null;
        assert_eq!(of(&same), of(&vector()));
        let mut other = vector();
        other["priority"] = json!(0);
        assert_ne!(of(&other), of(&vector()), "a given 0 is not an absent one");
    }
}

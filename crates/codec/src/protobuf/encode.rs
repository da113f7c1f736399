//! JSON values to protobuf.

use base64::Engine as _;
use serde_json::{Map, Value};

use super::table::{Field, Kind, Many, Shape, Table, Zero};
use super::{Error, special};
use crate::wire;

/// Appends an object's known fields by rising number.
pub(super) fn message(
    table: &Table,
    place: usize,
    object: &Map<String, Value>,
    out: &mut Vec<u8>,
    depth: usize,
) -> Result<(), Error> {
    let depth = depth.checked_sub(1).ok_or(Error::TooDeep)?;
    for field in &table.message(place).fields {
        if let (true, Kind::Message(inner)) = (field.is_inline(), field.kind) {
            let start = out.len();
            let mut written = 0;
            wire::nested(out, field.number, |out| {
                let before = out.len();
                message(table, inner, object, out, depth)?;
                written = out.len() - before;
                Ok(())
            })?;
            if written == 0 {
                out.truncate(start);
            }
            continue;
        }
        match object.get(field.json) {
            None => {}
            Some(Value::Null) => null(table, field, out),
            Some(value) => {
                self::field(table, field, value, out, depth).map_err(|error| error.within(field.json))?
            }
        }
    }
    Ok(())
}

/// A time that is no pointer says `null` as an empty message.
fn null(table: &Table, field: &Field, out: &mut Vec<u8>) {
    let Kind::Message(place) = field.kind else { return };
    let is_time = matches!(table.message(place).shape, Shape::Time | Shape::MicroTime);
    if is_time && field.many == Many::One && matches!(field.zero, Zero::Shown | Zero::Omitted) {
        wire::put_bytes(out, field.number, b"");
    }
}

fn field(table: &Table, field: &Field, value: &Value, out: &mut Vec<u8>, depth: usize) -> Result<(), Error> {
    match field.many {
        Many::One => single(table, field.number, field.kind, value, out, depth),
        Many::List => {
            let items = value.as_array().ok_or(Error::field("must be a list"))?;
            for (i, item) in items.iter().enumerate() {
                single(table, field.number, field.kind, item, out, depth).map_err(|error| error.at(i))?;
            }
            Ok(())
        }
        Many::Map => {
            let entries = value.as_object().ok_or(Error::field("must be a map"))?;
            let mut entries: Vec<(&String, &Value)> = entries.iter().collect();
            entries.sort_unstable_by_key(|entry| entry.0);
            for (key, value) in entries {
                wire::nested(out, field.number, |out| {
                    wire::put_bytes(out, 1, key.as_bytes());
                    single(table, 2, field.kind, value, out, depth)
                })
                .map_err(|error| error.within(key))?;
            }
            Ok(())
        }
    }
}

/// Appends one value; `null` in a list or a map is the type's zero.
pub(super) fn single(
    table: &Table,
    number: u32,
    kind: Kind,
    value: &Value,
    out: &mut Vec<u8>,
    depth: usize,
) -> Result<(), Error> {
    match (kind, value) {
        (Kind::Message(place), value) => {
            let shape = table.message(place).shape;
            wire::nested(out, number, |out| match (shape, value) {
                (Shape::Object, Value::Object(object)) => message(table, place, object, out, depth),
                (Shape::Object, Value::Null) => Ok(()),
                (Shape::Object, _) => Err(Error::field("must be an object")),
                (shape, value) => special::write(table, place, shape, value, out, depth),
            })
        }
        (Kind::Text, Value::String(text)) => {
            wire::put_bytes(out, number, text.as_bytes());
            Ok(())
        }
        (Kind::Text | Kind::Bytes, Value::Null) => {
            wire::put_bytes(out, number, b"");
            Ok(())
        }
        (Kind::Text, _) => Err(Error::field("must be a string")),
        (Kind::Bytes, Value::String(text)) => {
            let decoded = base64::engine::general_purpose::STANDARD.decode(text);
            let bytes = decoded.map_err(|_| Error::field("must be base64"))?;
            wire::put_bytes(out, number, &bytes);
            Ok(())
        }
        (Kind::Bytes, _) => Err(Error::field("must be a string in base64")),
        (Kind::Bool, Value::Bool(value)) => {
            wire::put_int(out, number, i64::from(*value));
            Ok(())
        }
        (Kind::Bool | Kind::Int32 | Kind::Int64, Value::Null) => {
            wire::put_int(out, number, 0);
            Ok(())
        }
        (Kind::Bool, _) => Err(Error::field("must be a boolean")),
        (Kind::Int32, value) => {
            let value = integer(value).and_then(|value| i32::try_from(value).ok());
            let value = value.ok_or(Error::field("must be an integer of 32 bits"))?;
            wire::put_int(out, number, i64::from(value));
            Ok(())
        }
        (Kind::Int64, value) => {
            wire::put_int(
                out,
                number,
                integer(value).ok_or(Error::field("must be an integer of 64 bits"))?,
            );
            Ok(())
        }
        (Kind::Double, value) => {
            let value = if value.is_null() {
                Some(0.0)
            } else {
                value.as_f64()
            };
            wire::put_double(out, number, value.ok_or(Error::field("must be a number"))?);
            Ok(())
        }
    }
}

/// A whole number, also when it is written with a fraction of zero.
pub(super) fn integer(value: &Value) -> Option<i64> {
    if let Some(value) = value.as_i64() {
        return Some(value);
    }
    let float = value
        .as_f64()
        .filter(|float| value.is_f64() && float.fract() == 0.0 && float.abs() < 9e18)?;
    format!("{float:.0}").parse().ok()
}

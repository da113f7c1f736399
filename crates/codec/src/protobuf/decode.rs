//! Protobuf to JSON values.

use base64::Engine as _;
use serde_json::{Map, Number, Value};

use super::table::{Field, Kind, Many, Shape, Table, Zero};
use super::{Error, special};
use crate::wire;

/// Decodes a message's fields into an object that may hold some already.
pub(super) fn message(
    table: &Table,
    place: usize,
    mut from: &[u8],
    object: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), Error> {
    let depth = depth.checked_sub(1).ok_or(Error::TooDeep)?;
    let known = table.message(place);
    while let Some((number, wire)) = wire::tag(&mut from)? {
        match known.field(number) {
            None => wire::skip(&mut from, wire, number, depth)?,
            Some(field) => {
                set(table, field, wire, &mut from, object, depth)
                    .map_err(|error| error.within(field.json))?;
            }
        }
    }
    Ok(())
}

fn set(
    table: &Table,
    field: &Field,
    wire: u8,
    from: &mut &[u8],
    object: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), Error> {
    match (field.many, field.kind) {
        (Many::One, Kind::Message(place)) => {
            let bytes = delimited(wire, from)?;
            if field.is_inline() {
                return message(table, place, bytes, object, depth);
            }
            let value = value(table, place, bytes, object.remove(field.json), depth)?;
            let empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
            let left_out = match field.zero {
                Zero::OmittedMessage => empty,
                Zero::Set => value.is_null(),
                Zero::Omitted | Zero::Shown => value.is_null() && is_raw(table, place),
            };
            if !left_out {
                object.insert(field.json.to_owned(), value);
            }
        }
        (Many::One, kind) => {
            let value = scalar(kind, wire, from)?;
            let left_out = matches!(field.zero, Zero::Omitted | Zero::OmittedMessage) && is_zero(&value);
            if left_out {
                object.remove(field.json);
            } else {
                object.insert(field.json.to_owned(), value);
            }
        }
        (Many::List, kind) => {
            let slot = slot(object, field.json, Value::Array(Vec::new()));
            let Value::Array(items) = slot else {
                return Err(Error::Damaged);
            };
            match kind {
                Kind::Message(place) => items.push(value(table, place, delimited(wire, from)?, None, depth)?),
                Kind::Text | Kind::Bytes => items.push(scalar(kind, wire, from)?),
                // numbers may stand packed in one run of bytes
                Kind::Bool | Kind::Int32 | Kind::Int64 | Kind::Double if wire == wire::BYTES => {
                    let mut packed = wire::bytes(from)?;
                    let inner = if kind == Kind::Double {
                        wire::FIXED64
                    } else {
                        wire::VARINT
                    };
                    while !packed.is_empty() {
                        items.push(scalar(kind, inner, &mut packed)?);
                    }
                }
                Kind::Bool | Kind::Int32 | Kind::Int64 | Kind::Double => {
                    items.push(scalar(kind, wire, from)?)
                }
            }
        }
        (Many::Map, kind) => {
            let (key, value) = entry(table, kind, delimited(wire, from)?, depth)?;
            let slot = slot(object, field.json, Value::Object(Map::new()));
            let Value::Object(entries) = slot else {
                return Err(Error::Damaged);
            };
            entries.insert(key, value);
        }
    }
    Ok(())
}

fn slot<'a>(object: &'a mut Map<String, Value>, name: &str, empty: Value) -> &'a mut Value {
    if !object.contains_key(name) {
        object.insert(name.to_owned(), empty);
    }
    &mut object[name]
}

fn is_raw(table: &Table, place: usize) -> bool {
    matches!(table.message(place).shape, Shape::RawExtension | Shape::Json)
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

fn entry(table: &Table, kind: Kind, mut from: &[u8], depth: usize) -> Result<(String, Value), Error> {
    let mut key = String::new();
    let mut found = None;
    while let Some((number, wire)) = wire::tag(&mut from)? {
        match (number, kind) {
            (1, _) => wire::text(delimited(wire, &mut from)?)?.clone_into(&mut key),
            (2, Kind::Message(place)) => {
                found = Some(value(table, place, delimited(wire, &mut from)?, None, depth)?)
            }
            (2, kind) => found = Some(scalar(kind, wire, &mut from)?),
            _ => wire::skip(&mut from, wire, number, depth)?,
        }
    }
    let value = match (found, kind) {
        (Some(value), _) => value,
        (None, Kind::Message(place)) => value(table, place, &[], None, depth)?,
        (None, kind) => zero(kind),
    };
    Ok((key, value))
}

fn zero(kind: Kind) -> Value {
    match kind {
        Kind::Text | Kind::Bytes => Value::String(String::new()),
        Kind::Bool => Value::Bool(false),
        Kind::Int32 | Kind::Int64 | Kind::Double => Value::from(0),
        Kind::Message(_) => Value::Null,
    }
}

fn delimited<'a>(wire: u8, from: &mut &'a [u8]) -> Result<&'a [u8], Error> {
    if wire == wire::BYTES {
        wire::bytes(from)
    } else {
        Err(Error::Damaged)
    }
}

fn scalar(kind: Kind, wire: u8, from: &mut &[u8]) -> Result<Value, Error> {
    match (kind, wire) {
        (Kind::Text, wire::BYTES) => Ok(Value::String(wire::text(wire::bytes(from)?)?.to_owned())),
        (Kind::Bytes, wire::BYTES) => Ok(Value::String(
            base64::engine::general_purpose::STANDARD.encode(wire::bytes(from)?),
        )),
        (Kind::Bool, wire::VARINT) => Ok(Value::Bool(wire::varint(from)? != 0)),
        (Kind::Int64, wire::VARINT) => Ok(Value::from(wire::varint(from)?.cast_signed())),
        (Kind::Int32, wire::VARINT) => Ok(Value::from(special::low_32(wire::varint(from)?.cast_signed()))),
        (Kind::Double, wire::FIXED64) => {
            let number = f64::from_bits(wire::fixed64(from)?);
            // a whole number is written without a fraction, as Go prints it
            if number.fract() == 0.0 && number.abs() < 9e15 {
                return format!("{number:.0}")
                    .parse::<i64>()
                    .map(Value::from)
                    .map_err(|_| Error::Damaged);
            }
            Number::from_f64(number)
                .map(Value::Number)
                .ok_or(Error::field("must be a finite number"))
        }
        _ => Err(Error::Damaged),
    }
}

/// Decodes a message to what stands for it in JSON; `before` is what an earlier piece of the same field gave.
pub(super) fn value(
    table: &Table,
    place: usize,
    bytes: &[u8],
    before: Option<Value>,
    depth: usize,
) -> Result<Value, Error> {
    let shape = table.message(place).shape;
    if shape == Shape::Object {
        let mut object = match before {
            Some(Value::Object(object)) => object,
            _ => Map::new(),
        };
        message(table, place, bytes, &mut object, depth)?;
        return Ok(Value::Object(object));
    }
    special::read(table, place, shape, bytes, depth)
}

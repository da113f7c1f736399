//! Messages whose JSON form is not an object of their fields: times, quantities, embedded JSON, unions.

use serde_json::Value;

use super::table::{Kind, Shape, Table};
use super::{Error, MAGIC, decode, encode};
use crate::wire;

/// Nanoseconds of a second.
const SECOND: i64 = 1_000_000_000;

/// Decodes a message of a special shape.
pub(super) fn read(
    table: &Table,
    place: usize,
    shape: Shape,
    bytes: &[u8],
    depth: usize,
) -> Result<Value, Error> {
    match shape {
        Shape::Object => decode::value(table, place, bytes, None, depth),
        Shape::Quantity => {
            let parts = Parts::read(bytes, depth)?;
            Ok(Value::String(wire::text(parts.bytes[0])?.to_owned()))
        }
        Shape::IntOrString => {
            let parts = Parts::read(bytes, depth)?;
            match parts.ints[0] {
                1 => Ok(Value::String(wire::text(parts.bytes[2])?.to_owned())),
                _ => Ok(Value::from(low_32(parts.ints[1]))),
            }
        }
        Shape::Time | Shape::MicroTime if bytes.is_empty() => Ok(Value::Null),
        Shape::Time => time(Parts::read(bytes, depth)?.ints[0], 0, false),
        Shape::MicroTime => {
            let parts = Parts::read(bytes, depth)?;
            time(parts.ints[0], parts.ints[1], true)
        }
        Shape::Duration => Ok(Value::String(go_duration(Parts::read(bytes, depth)?.ints[0]))),
        Shape::Json => raw_json(Parts::read(bytes, depth)?.bytes[0]),
        Shape::RawExtension => {
            let raw = Parts::read(bytes, depth)?.bytes[0];
            if raw.starts_with(&MAGIC) {
                nested_object(table, raw, depth)
            } else {
                raw_json(raw)
            }
        }
        Shape::Texts => {
            let mut items = Vec::new();
            each(bytes, depth, |number, bytes| {
                if number == 1 {
                    items.push(Value::String(wire::text(bytes)?.to_owned()));
                }
                Ok(())
            })?;
            Ok(Value::Array(items))
        }
        Shape::SchemaOrArray | Shape::SchemaOrBool | Shape::SchemaOrTexts => {
            union(table, place, shape, bytes, depth)
        }
    }
}

/// An object in an envelope inside another one counts against the same depth.
fn nested_object(table: &Table, raw: &[u8], depth: usize) -> Result<Value, Error> {
    let envelope = super::envelope(raw)?;
    if envelope.content_type == "application/json" {
        return raw_json(envelope.raw);
    }
    let Some(place) = table.kind(envelope.api_version, envelope.kind) else {
        return Err(Error::UnknownKind {
            api_version: envelope.api_version.to_owned(),
            kind: envelope.kind.to_owned(),
        });
    };
    let mut object = serde_json::Map::new();
    object.insert("apiVersion".to_owned(), envelope.api_version.into());
    object.insert("kind".to_owned(), envelope.kind.into());
    decode::message(table, place, envelope.raw, &mut object, depth)?;
    Ok(Value::Object(object))
}

/// The first three fields of a small message, as integers and as bytes.
#[derive(Default)]
struct Parts<'a> {
    ints: [i64; 3],
    bytes: [&'a [u8]; 3],
}

impl<'a> Parts<'a> {
    fn read(mut from: &'a [u8], depth: usize) -> Result<Self, Error> {
        let mut parts = Self::default();
        while let Some((number, wire)) = wire::tag(&mut from)? {
            let slot = usize::try_from(number).unwrap_or(usize::MAX) - 1;
            match wire {
                wire::VARINT if slot < 3 => parts.ints[slot] = wire::varint(&mut from)?.cast_signed(),
                wire::BYTES if slot < 3 => parts.bytes[slot] = wire::bytes(&mut from)?,
                _ => wire::skip(&mut from, wire, number, depth)?,
            }
        }
        Ok(parts)
    }
}

/// Calls back for each length-delimited field.
fn each<'a>(
    mut from: &'a [u8],
    depth: usize,
    mut found: impl FnMut(u32, &'a [u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    while let Some((number, wire)) = wire::tag(&mut from)? {
        if wire == wire::BYTES {
            found(number, wire::bytes(&mut from)?)?;
        } else {
            wire::skip(&mut from, wire, number, depth)?;
        }
    }
    Ok(())
}

fn raw_json(raw: &[u8]) -> Result<Value, Error> {
    if raw.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(raw).map_err(|_| Error::field("must hold JSON"))
}

fn time(seconds: i64, nanos: i64, micro: bool) -> Result<Value, Error> {
    const RANGE: &str = "must be a time between the years 1 and 9999";
    let at = jiff::Timestamp::new(seconds, low_32(nanos)).map_err(|_| Error::field(RANGE))?;
    if !micro {
        return Ok(Value::String(at.to_string()));
    }
    let at = at.round(
        jiff::TimestampRound::new()
            .smallest(jiff::Unit::Microsecond)
            .mode(jiff::RoundMode::Trunc),
    );
    let at = at.map_err(|_| Error::field(RANGE))?;
    Ok(Value::String(at.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()))
}

/// The lower 32 bits, as a reader of 32-bit fields keeps them.
pub(super) fn low_32(value: i64) -> i32 {
    u32::try_from(value & 0xffff_ffff).unwrap_or(0).cast_signed()
}

/// The three unions of `JSONSchemaProps` with something simpler.
fn union(table: &Table, place: usize, shape: Shape, bytes: &[u8], depth: usize) -> Result<Value, Error> {
    let schema = schema_of(table, place)?;
    let mut found = None;
    let mut list = Vec::new();
    let own = if shape == Shape::SchemaOrBool { 2 } else { 1 };
    each(bytes, depth, |number, bytes| {
        if number == own {
            found = Some(decode::value(table, schema, bytes, None, depth)?);
        } else if number == 2 && shape == Shape::SchemaOrArray {
            list.push(decode::value(table, schema, bytes, None, depth)?);
        } else if number == 2 && shape == Shape::SchemaOrTexts {
            list.push(Value::String(wire::text(bytes)?.to_owned()));
        }
        Ok(())
    })?;
    match found {
        Some(schema) => Ok(schema),
        None if shape == Shape::SchemaOrBool => Ok(Value::Bool(Parts::read(bytes, depth)?.ints[0] != 0)),
        None => Ok(Value::Array(list)),
    }
}

/// The message of schemas behind one of the unions.
pub(super) fn schema_of(table: &Table, place: usize) -> Result<usize, Error> {
    let inner = table
        .message(place)
        .fields
        .iter()
        .find_map(|field| match field.kind {
            Kind::Message(inner) => Some(inner),
            Kind::Text | Kind::Bytes | Kind::Bool | Kind::Int32 | Kind::Int64 | Kind::Double => None,
        });
    inner.ok_or(Error::Damaged)
}

/// Appends the fields of a message of a special shape.
pub(super) fn write(
    table: &Table,
    place: usize,
    shape: Shape,
    value: &Value,
    out: &mut Vec<u8>,
    depth: usize,
) -> Result<(), Error> {
    match (shape, value) {
        (Shape::Object, _) => Err(Error::field("must be an object")),
        (Shape::Json | Shape::RawExtension, value) => {
            wire::put_bytes(out, 1, value.to_string().as_bytes());
            Ok(())
        }
        (_, Value::Null) => Ok(()),
        (Shape::Quantity, Value::String(text)) => {
            wire::put_bytes(out, 1, text.as_bytes());
            Ok(())
        }
        (Shape::Quantity, Value::Number(number)) => {
            wire::put_bytes(out, 1, number.to_string().as_bytes());
            Ok(())
        }
        (Shape::Quantity, _) => Err(Error::field("must be a quantity")),
        (Shape::IntOrString, Value::String(text)) => {
            wire::put_int(out, 1, 1);
            wire::put_int(out, 2, 0);
            wire::put_bytes(out, 3, text.as_bytes());
            Ok(())
        }
        (Shape::IntOrString, value) => {
            const WANTED: &str = "must be an integer of 32 bits or a string";
            let number = encode::integer(value).filter(|number| i32::try_from(*number).is_ok());
            wire::put_int(out, 1, 0);
            wire::put_int(out, 2, number.ok_or(Error::field(WANTED))?);
            wire::put_bytes(out, 3, b"");
            Ok(())
        }
        (Shape::Time | Shape::MicroTime, Value::String(text)) => {
            let at: jiff::Timestamp = text
                .parse()
                .map_err(|_| Error::field("must be a time of RFC 3339"))?;
            let nanos = if shape == Shape::MicroTime {
                i64::from(at.subsec_nanosecond()) / 1_000 * 1_000
            } else {
                0
            };
            // before 1970 the fraction counts back from the second
            let (mut seconds, mut nanos) = (at.as_second(), nanos);
            if at.subsec_nanosecond() < 0 {
                seconds -= 1;
                nanos = if shape == Shape::MicroTime {
                    nanos + SECOND
                } else {
                    0
                };
            }
            wire::put_int(out, 1, seconds);
            wire::put_int(out, 2, nanos);
            Ok(())
        }
        (Shape::Time | Shape::MicroTime, _) => Err(Error::field("must be a time of RFC 3339")),
        (Shape::Duration, Value::String(text)) => {
            wire::put_int(
                out,
                1,
                parse_duration(text).ok_or(Error::field("must be a duration like 1m30s"))?,
            );
            Ok(())
        }
        (Shape::Duration, _) => Err(Error::field("must be a duration like 1m30s")),
        (Shape::Texts, Value::Array(items)) => {
            for (i, item) in items.iter().enumerate() {
                encode::single(table, 1, Kind::Text, item, out, depth).map_err(|error| error.at(i))?;
            }
            Ok(())
        }
        (Shape::Texts, _) => Err(Error::field("must be a list of strings")),
        (Shape::SchemaOrArray | Shape::SchemaOrBool | Shape::SchemaOrTexts, value) => {
            put_union(table, place, shape, value, out, depth)
        }
    }
}

fn put_union(
    table: &Table,
    place: usize,
    shape: Shape,
    value: &Value,
    out: &mut Vec<u8>,
    depth: usize,
) -> Result<(), Error> {
    let schema = Kind::Message(schema_of(table, place)?);
    match (shape, value) {
        (Shape::SchemaOrBool, Value::Bool(allows)) => {
            wire::put_int(out, 1, i64::from(*allows));
            Ok(())
        }
        (Shape::SchemaOrBool, Value::Object(_)) => {
            wire::put_int(out, 1, 1);
            encode::single(table, 2, schema, value, out, depth)
        }
        (Shape::SchemaOrArray | Shape::SchemaOrTexts, Value::Object(_)) => {
            encode::single(table, 1, schema, value, out, depth)
        }
        (Shape::SchemaOrArray | Shape::SchemaOrTexts, Value::Array(items)) => {
            let kind = if shape == Shape::SchemaOrArray {
                schema
            } else {
                Kind::Text
            };
            for (i, item) in items.iter().enumerate() {
                encode::single(table, 2, kind, item, out, depth).map_err(|error| error.at(i))?;
            }
            Ok(())
        }
        _ => Err(Error::field("must be a schema")),
    }
}

/// A span as Go prints it: `1h0m0s`, `1.5s`, `300ms`.
fn go_duration(nanos: i64) -> String {
    if nanos == 0 {
        return "0s".to_owned();
    }
    let sign = if nanos < 0 { "-" } else { "" };
    let span = i128::from(nanos).unsigned_abs();
    let decimal = |unit: u128| {
        let text = format!(
            "{}.{:0width$}",
            span / unit,
            span % unit,
            width = unit.ilog10() as usize
        );
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    match span {
        0..1_000 => format!("{sign}{span}ns"),
        1_000..1_000_000 => format!("{sign}{}µs", decimal(1_000)),
        1_000_000..1_000_000_000 => format!("{sign}{}ms", decimal(1_000_000)),
        _ => {
            let minutes = span / 60_000_000_000;
            let rest = span % 60_000_000_000;
            let text = format!("{}.{:09}", rest / 1_000_000_000, rest % 1_000_000_000);
            let seconds = text.trim_end_matches('0').trim_end_matches('.');
            match (minutes / 60, minutes % 60) {
                (0, 0) => format!("{sign}{seconds}s"),
                (0, minutes) => format!("{sign}{minutes}m{seconds}s"),
                (hours, minutes) => format!("{sign}{hours}h{minutes}m{seconds}s"),
            }
        }
    }
}

/// Reads a span as Go does: signed decimal numbers, each with a unit.
fn parse_duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut total = 0i64;
    loop {
        let digits = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
        let (whole, fraction) = rest[..digits].split_once('.').unwrap_or((&rest[..digits], ""));
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        rest = &rest[digits..];
        let unit_end = rest
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(rest.len());
        let unit = match &rest[..unit_end] {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => SECOND,
            "m" => 60 * SECOND,
            "h" => 3_600 * SECOND,
            _ => return None,
        };
        let whole: i64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        total = total.checked_add(whole.checked_mul(unit)?)?;
        let mut part = unit;
        for digit in fraction.chars() {
            part /= 10;
            total = total.checked_add(part * i64::from(digit.to_digit(10)?))?;
        }
        rest = &rest[unit_end..];
        if rest.is_empty() {
            return Some(if negative { -total } else { total });
        }
    }
}

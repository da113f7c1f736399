//! The form in which Kubernetes stores and shows an object, whatever a client wrote: Go's types know no difference
//! between a value's zero and its absence, unless the table says that they do.

use serde_json::{Map, Value};

use super::table::{Field, Kind, Many, Shape, Table, Zero};
use super::{Error, special};

/// How quantities are written; `None` for what is no quantity.
#[derive(Debug, Clone, Copy)]
pub struct Quantities {
    /// One that stands alone.
    pub single: fn(&Value) -> Option<String>,
    /// One of a list of resources.
    pub of_resource: fn(&Value) -> Option<String>,
}

/// Removes from a message's object what Go leaves out, and writes quantities as Kubernetes does. Values of wrong types
/// stay as they are.
pub(super) fn message(
    table: &Table,
    place: usize,
    object: &mut Map<String, Value>,
    quantities: Quantities,
    depth: usize,
) -> Result<(), Error> {
    let depth = depth.checked_sub(1).ok_or(Error::TooDeep)?;
    for field in &table.message(place).fields {
        if let (true, Kind::Message(inner)) = (field.is_inline(), field.kind) {
            message(table, inner, object, quantities, depth)?;
            continue;
        }
        let Some(value) = object.get_mut(field.json) else {
            continue;
        };
        if let Kind::Message(inner) = field.kind {
            messages(table, field.many, inner, value, quantities, depth)
                .map_err(|error| error.within(field.json))?;
        }
        if is_left_out(field, value) {
            object.remove(field.json);
        }
    }
    Ok(())
}

fn messages(
    table: &Table,
    many: Many,
    place: usize,
    value: &mut Value,
    quantities: Quantities,
    depth: usize,
) -> Result<(), Error> {
    match (many, value) {
        (Many::One, value) => single(table, place, value, quantities.single, quantities, depth),
        (Many::List, Value::Array(items)) => items.iter_mut().enumerate().try_for_each(|(at, item)| {
            single(table, place, item, quantities.single, quantities, depth).map_err(|error| error.at(at))
        }),
        (Many::Map, Value::Object(entries)) => entries.iter_mut().try_for_each(|(key, item)| {
            single(table, place, item, quantities.of_resource, quantities, depth)
                .map_err(|error| error.within(key))
        }),
        (Many::List | Many::Map, _) => Ok(()),
    }
}

fn single(
    table: &Table,
    place: usize,
    value: &mut Value,
    quantity: fn(&Value) -> Option<String>,
    quantities: Quantities,
    depth: usize,
) -> Result<(), Error> {
    const QUANTITY: &str =
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    let shape = table.message(place).shape;
    match (shape, value) {
        (Shape::Object, Value::Object(object)) => message(table, place, object, quantities, depth),
        (Shape::Quantity, value) => {
            *value = Value::from(quantity(value).ok_or(Error::field(QUANTITY))?);
            Ok(())
        }
        (Shape::SchemaOrArray | Shape::SchemaOrBool | Shape::SchemaOrTexts, Value::Object(object)) => {
            message(
                table,
                special::schema_of(table, place)?,
                object,
                quantities,
                depth,
            )
        }
        (Shape::SchemaOrArray, value) => {
            let schema = special::schema_of(table, place)?;
            messages(table, Many::List, schema, value, quantities, depth)
        }
        _ => Ok(()),
    }
}

/// Whether a field says no more than if it were not there.
fn is_left_out(field: &Field, value: &Value) -> bool {
    match (field.zero, field.many, field.kind, value) {
        (Zero::Set | Zero::Shown, ..) => false,
        (_, Many::List, _, Value::Array(items)) => items.is_empty(),
        (_, Many::Map, _, Value::Object(entries)) => entries.is_empty(),
        (_, Many::One, Kind::Text | Kind::Bytes, Value::String(text)) => text.is_empty(),
        (_, Many::One, Kind::Bool, Value::Bool(set)) => !set,
        (_, Many::One, Kind::Int32 | Kind::Int64 | Kind::Double, Value::Number(number)) => {
            number.as_f64() == Some(0.0)
        }
        (Zero::OmittedMessage, Many::One, Kind::Message(_), Value::Object(fields)) => fields.is_empty(),
        _ => false,
    }
}

//! What expressions compute with: the values of the data, which are borrowed, and those that functions make.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::net::IpAddr;
use std::rc::Rc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Number, Value};

use super::text::{Semver, Url, duration, duration_text};
use crate::quantity::Quantity;
use crate::schema::{Additional, Kind, Schema};

/// A value.
#[derive(Debug, Clone)]
pub(super) enum Val<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Cow<'a, str>),
    /// A list or map of the data, and what its schema says of it.
    Data(&'a Value, Option<&'a Schema>),
    List(Rc<Vec<Val<'a>>>),
    Map(Rc<Vec<(Val<'a>, Val<'a>)>>),
    Duration(SignedDuration),
    Timestamp(Timestamp),
    Quantity(Quantity),
    Url(Rc<Url>),
    Ip(IpAddr),
    /// An address with the length of its prefix.
    Cidr(IpAddr, u8),
    Semver(Rc<Semver>),
    /// A value that may be missing.
    Optional(Option<Rc<Val<'a>>>),
    /// The name of a format of texts.
    Format(&'static str),
    /// The name of a type.
    Type(&'static str),
}

impl<'a> Val<'a> {
    /// A value of the data. Texts of some formats are what they stand for.
    pub(super) fn of(value: &'a Value, schema: Option<&'a Schema>) -> Self {
        let kind = schema.map(|schema| schema.kind);
        match value {
            Value::Null => Self::Null,
            Value::Bool(truth) => Self::Bool(*truth),
            Value::Number(number) => Self::number(number, kind),
            Value::String(text) => schema
                .filter(|schema| schema.kind == Kind::String)
                .and_then(|schema| formatted(text, schema.rules.as_ref()?.format.as_str()))
                .unwrap_or(Self::Text(Cow::Borrowed(text))),
            Value::Array(_) | Value::Object(_) => Self::Data(value, schema),
        }
    }

    fn number(number: &Number, kind: Option<Kind>) -> Self {
        let float = number.as_f64().unwrap_or_default();
        match (number.as_i64(), number.as_u64()) {
            (Some(_), _) | (_, Some(_)) if kind == Some(Kind::Number) => Self::Double(float),
            (Some(whole), _) => Self::Int(whole),
            (None, Some(whole)) => Self::Uint(whole),
            (None, None) if kind == Some(Kind::Integer) && float.fract() == 0.0 && float.abs() < 9e15 => {
                Self::Int(float as i64)
            }
            (None, None) => Self::Double(float),
        }
    }

    pub(super) fn text(text: impl Into<String>) -> Self {
        Self::Text(Cow::Owned(text.into()))
    }

    pub(super) fn size(size: usize) -> Self {
        Self::Int(i64::try_from(size).unwrap_or(i64::MAX))
    }

    pub(super) fn list(items: Vec<Self>) -> Self {
        Self::List(Rc::new(items))
    }

    pub(super) fn some(value: Self) -> Self {
        Self::Optional(Some(Rc::new(value)))
    }

    pub(super) fn as_text(&self) -> Option<&str> {
        if let Self::Text(text) = self {
            Some(text)
        } else {
            None
        }
    }

    /// The items of a list.
    pub(super) fn items(&self) -> Option<Vec<Self>> {
        if let Self::List(items) = self {
            return Some(items.to_vec());
        }
        let Self::Data(Value::Array(items), schema) = self else {
            return None;
        };
        let schema = schema.and_then(Schema::item);
        Some(items.iter().map(|item| Self::of(item, schema)).collect())
    }

    /// The keys and values of a map.
    pub(super) fn entries(&self) -> Option<Vec<(Self, Self)>> {
        if let Self::Map(entries) = self {
            return Some(entries.to_vec());
        }
        let Self::Data(Value::Object(map), schema) = self else {
            return None;
        };
        let entry = |(key, value): (&'a String, &'a Value)| {
            let schema = schema.and_then(|schema| schema.property(key));
            (Self::Text(Cow::Borrowed(key)), Self::of(value, schema))
        };
        Some(map.iter().map(entry).collect())
    }

    /// A field or an entry of a map.
    pub(super) fn field(&self, name: &str) -> Option<Self> {
        if let Self::Data(Value::Object(map), schema) = self {
            let value = map.get(name)?;
            return Some(Self::of(value, schema.and_then(|schema| schema.property(name))));
        }
        let Self::Map(entries) = self else { return None };
        entries
            .iter()
            .find(|(key, _)| key.as_text() == Some(name))
            .map(|(_, value)| value.clone())
    }

    /// What stands at an index or key.
    pub(super) fn at(&self, index: &Self) -> Option<Self> {
        if let Self::Map(entries) = self {
            let found = entries.iter().find(|(key, _)| same(key, index));
            return found.map(|(_, value)| value.clone());
        }
        if let Some(name) = index.as_text() {
            return self.field(name);
        }
        let index = usize::try_from(index.whole()?).ok()?;
        if let Self::List(items) = self {
            return items.get(index).cloned();
        }
        let Self::Data(Value::Array(items), schema) = self else {
            return None;
        };
        items
            .get(index)
            .map(|item| Self::of(item, schema.and_then(Schema::item)))
    }

    /// A whole number, whatever its type.
    pub(super) fn whole(&self) -> Option<i64> {
        if let Self::Int(whole) = self {
            return Some(*whole);
        }
        if let Self::Uint(whole) = self {
            return i64::try_from(*whole).ok();
        }
        let Self::Double(float) = self else { return None };
        (float.fract() == 0.0 && float.abs() < 9e15).then_some(*float as i64)
    }

    pub(super) fn float(&self) -> Option<f64> {
        if let Self::Int(whole) = self {
            return Some(*whole as f64);
        }
        if let Self::Uint(whole) = self {
            return Some(*whole as f64);
        }
        if let Self::Double(float) = self {
            Some(*float)
        } else {
            None
        }
    }

    /// How many values it holds, itself among them.
    pub(super) fn weight(&self) -> usize {
        fn tree(value: &Value) -> usize {
            match value {
                Value::Array(items) => items.iter().map(tree).sum::<usize>() + 1,
                Value::Object(map) => map.values().map(tree).sum::<usize>() + 1,
                Value::String(text) => text.len() / 64 + 1,
                Value::Null | Value::Bool(_) | Value::Number(_) => 1,
            }
        }
        if let Self::Data(value, _) = self {
            return tree(value);
        }
        if let Self::List(items) = self {
            return items.iter().map(Self::weight).sum::<usize>() + 1;
        }
        if let Self::Map(entries) = self {
            return entries.iter().map(|(_, value)| value.weight()).sum::<usize>() + 1;
        }
        self.as_text().map_or(1, |text| text.len() / 64 + 1)
    }

    /// The name of its type.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::Text(_) => "string",
            Self::Data(Value::Array(_), _) | Self::List(_) => "list",
            Self::Data(_, Some(schema)) if matches!(schema.additional, Additional::Unset) => "object",
            Self::Data(_, _) | Self::Map(_) => "map",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::Quantity(_) => "kubernetes.Quantity",
            Self::Url(_) => "kubernetes.URL",
            Self::Ip(_) => "net.IP",
            Self::Cidr(_, _) => "net.CIDR",
            Self::Semver(_) => "kubernetes.Semver",
            Self::Optional(_) => "optional_type",
            Self::Format(_) => "kubernetes.NamedFormat",
            Self::Type(_) => "type",
        }
    }

    /// As text, for `string()` and messages.
    pub(super) fn show(&self) -> String {
        match self {
            Self::Null => "null".to_owned(),
            Self::Bool(truth) => truth.to_string(),
            Self::Int(whole) => whole.to_string(),
            Self::Uint(whole) => whole.to_string(),
            Self::Double(float) => crate::field::go_float(*float),
            Self::Text(text) => text.to_string(),
            Self::Duration(duration) => duration_text(*duration),
            Self::Timestamp(time) => time.to_string(),
            Self::Quantity(quantity) => quantity.to_string(),
            Self::Url(url) => url.text.clone(),
            Self::Ip(address) => address.to_string(),
            Self::Cidr(address, bits) => format!("{address}/{bits}"),
            Self::Semver(version) => version.text.clone(),
            Self::Format(name) | Self::Type(name) => (*name).to_owned(),
            Self::Optional(None) => "optional.none()".to_owned(),
            Self::Optional(Some(value)) => value.show(),
            Self::Data(_, _) | Self::List(_) | Self::Map(_) => self.clone().into_json().to_string(),
        }
    }

    /// As JSON; what JSON does not have becomes text.
    pub(super) fn into_json(self) -> Value {
        match self {
            Self::Null | Self::Optional(None) => Value::Null,
            Self::Bool(truth) => Value::Bool(truth),
            Self::Int(whole) => Value::from(whole),
            Self::Uint(whole) => Value::from(whole),
            Self::Double(float) => Value::from(float),
            Self::Data(value, _) => value.clone(),
            Self::List(items) => items.iter().cloned().map(Self::into_json).collect(),
            Self::Map(entries) => Value::Object(
                entries
                    .iter()
                    .map(|(key, value)| (key.show(), value.clone().into_json()))
                    .collect::<Map<_, _>>(),
            ),
            Self::Optional(Some(value)) => (*value).clone().into_json(),
            Self::Text(_)
            | Self::Duration(_)
            | Self::Timestamp(_)
            | Self::Quantity(_)
            | Self::Url(_)
            | Self::Ip(_)
            | Self::Cidr(_, _)
            | Self::Semver(_)
            | Self::Format(_)
            | Self::Type(_) => Value::String(self.show()),
        }
    }
}

/// A text of a format as what it stands for.
fn formatted<'a>(text: &str, format: &str) -> Option<Val<'a>> {
    match format {
        "date-time" | "datetime" => text.parse().ok().map(Val::Timestamp),
        "date" => format!("{text}T00:00:00Z").parse().ok().map(Val::Timestamp),
        "duration" => duration(text).map(Val::Duration),
        _ => None,
    }
}

/// Equal, where `1` and `1.0` are the same number.
pub(super) fn same(left: &Val<'_>, right: &Val<'_>) -> bool {
    if let (Some(left), Some(right)) = (left.items(), right.items()) {
        return left.len() == right.len() && left.iter().zip(&right).all(|(left, right)| same(left, right));
    }
    if let (Some(left), Some(right)) = (left.entries(), right.entries()) {
        let right = Val::Map(Rc::new(right));
        let size = right.entries().map_or(0, |entries| entries.len());
        return left.len() == size
            && left
                .iter()
                .all(|(key, left)| right.at(key).is_some_and(|right| same(left, &right)));
    }
    match (left, right) {
        (Val::Null, Val::Null) => true,
        (Val::Bool(left), Val::Bool(right)) => left == right,
        (Val::Text(left), Val::Text(right)) => left == right,
        (Val::Duration(left), Val::Duration(right)) => left == right,
        (Val::Timestamp(left), Val::Timestamp(right)) => left == right,
        (Val::Quantity(left), Val::Quantity(right)) => left == right,
        (Val::Url(left), Val::Url(right)) => left == right,
        (Val::Ip(left), Val::Ip(right)) => left == right,
        (Val::Cidr(left, bits), Val::Cidr(right, more)) => left == right && bits == more,
        (Val::Semver(left), Val::Semver(right)) => left.order(right) == Ordering::Equal,
        (Val::Type(left), Val::Type(right)) | (Val::Format(left), Val::Format(right)) => left == right,
        (Val::Optional(left), Val::Optional(right)) => match (left, right) {
            (Some(left), Some(right)) => same(left, right),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        },
        (left, right) => order(left, right) == Some(Ordering::Equal),
    }
}

/// The order of two values that have one.
pub(super) fn order(left: &Val<'_>, right: &Val<'_>) -> Option<Ordering> {
    match (left, right) {
        (Val::Int(left), Val::Int(right)) => Some(left.cmp(right)),
        (Val::Uint(left), Val::Uint(right)) => Some(left.cmp(right)),
        (Val::Text(left), Val::Text(right)) => Some(left.cmp(right)),
        (Val::Bool(left), Val::Bool(right)) => Some(left.cmp(right)),
        (Val::Duration(left), Val::Duration(right)) => Some(left.cmp(right)),
        (Val::Timestamp(left), Val::Timestamp(right)) => Some(left.cmp(right)),
        (left, right) => left.float()?.partial_cmp(&right.float()?),
    }
}

//! What expressions compute with: the values of the data, which are borrowed, and those that functions make.

use std::cmp::Ordering;
use std::net::IpAddr;
use std::ops::Deref;
use std::rc::Rc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Number, Value};

use super::text::{Semver, Url, duration, duration_text};
use crate::quantity::Quantity;
use crate::schema::{Additional, Kind, Schema};

/// The names of types, as values have them and expressions may write them.
const TYPES: [&str; 19] = [
    "bool",
    "int",
    "uint",
    "double",
    "string",
    "bytes",
    "list",
    "map",
    "null_type",
    "type",
    "google.protobuf.Duration",
    "google.protobuf.Timestamp",
    "kubernetes.NamedFormat",
    "kubernetes.Quantity",
    "kubernetes.Semver",
    "kubernetes.URL",
    "net.CIDR",
    "net.IP",
    "optional_type",
];

/// The type of a name.
pub(super) fn type_named(name: &str) -> Option<&'static str> {
    TYPES.into_iter().find(|known| *known == name)
}

/// A text of the data, or one that was made. Copies share it.
#[derive(Debug, Clone)]
pub(super) enum Text<'a> {
    Data(&'a str),
    Made(Rc<str>),
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Data(text) => text,
            Self::Made(text) => text,
        }
    }
}

/// A value.
#[derive(Debug, Clone)]
pub(super) enum Val<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Text<'a>),
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
                .unwrap_or(Self::Text(Text::Data(text))),
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

    pub(super) fn text(text: impl Into<Rc<str>>) -> Self {
        Self::Text(Text::Made(text.into()))
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

    /// How many items or entries a list or map has.
    pub(super) fn len(&self) -> Option<usize> {
        if let Self::List(items) = self {
            return Some(items.len());
        }
        if let Self::Map(entries) = self {
            return Some(entries.len());
        }
        if let Self::Data(Value::Array(items), _) = self {
            return Some(items.len());
        }
        let Self::Data(Value::Object(map), _) = self else {
            return None;
        };
        Some(map.len())
    }

    pub(super) fn is_list(&self) -> bool {
        matches!(self, Self::List(_) | Self::Data(Value::Array(_), _))
    }

    pub(super) fn is_map(&self) -> bool {
        matches!(self, Self::Map(_) | Self::Data(Value::Object(_), _))
    }

    /// The items of a list by their places, or the entries of a map by their keys, one after the other.
    pub(super) fn each(&self) -> Option<Box<dyn Iterator<Item = (Self, Self)> + '_>> {
        if let Self::List(items) = self {
            let numbered = items.iter().enumerate();
            return Some(Box::new(
                numbered.map(|(at, item)| (Self::size(at), item.clone())),
            ));
        }
        if let Self::Map(entries) = self {
            return Some(Box::new(entries.iter().cloned()));
        }
        let Self::Data(data, schema) = self else {
            return None;
        };
        let (data, schema): (&'a Value, Option<&'a Schema>) = (data, *schema);
        if let Value::Array(items) = data {
            let schema = schema.and_then(Schema::item);
            let numbered = items.iter().enumerate();
            return Some(Box::new(
                numbered.map(move |(at, item)| (Self::size(at), Self::of(item, schema))),
            ));
        }
        let Value::Object(map) = data else { return None };
        Some(Box::new(map.iter().map(move |(key, value)| {
            let schema = schema.and_then(|schema| schema.property(key));
            (Self::Text(Text::Data(key)), Self::of(value, schema))
        })))
    }

    /// The items of a list.
    pub(super) fn items(&self) -> Option<Vec<Self>> {
        let each = self.each().filter(|_| self.is_list())?;
        Some(each.map(|(_, item)| item).collect())
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

    /// How many values it holds, itself among them, where long texts count as several; at most a little more than
    /// the limit, so that values which are in others many times are not counted for ever.
    pub(super) fn weight(&self, limit: usize) -> usize {
        let mut sum = 0;
        self.weigh(&mut sum, limit);
        sum
    }

    fn weigh(&self, sum: &mut usize, limit: usize) {
        if *sum > limit {
            return;
        }
        *sum += 1 + self.as_text().map_or(0, |text| text.len() / 64);
        match self {
            Self::Data(value, _) => weigh_data(value, sum, limit),
            Self::List(items) => items.iter().for_each(|item| item.weigh(sum, limit)),
            Self::Map(entries) => {
                *sum += self.span() * entries.len();
                for (key, value) in entries.iter() {
                    key.weigh(sum, limit);
                    value.weigh(sum, limit);
                }
            }
            Self::Optional(Some(value)) => value.weigh(sum, limit),
            Self::Url(url) => *sum += url.text.len() / 64,
            Self::Semver(version) => *sum += version.text.len() / 8,
            Self::Null
            | Self::Bool(_)
            | Self::Int(_)
            | Self::Uint(_)
            | Self::Double(_)
            | Self::Text(_)
            | Self::Duration(_)
            | Self::Timestamp(_)
            | Self::Quantity(_)
            | Self::Ip(_)
            | Self::Cidr(_, _)
            | Self::Optional(None)
            | Self::Format(_)
            | Self::Type(_) => {}
        }
    }

    /// What it costs to find something in it: maps that expressions make are searched from end to end.
    pub(super) fn span(&self) -> usize {
        if let Self::Map(entries) = self {
            entries.len() / 16
        } else {
            0
        }
    }

    /// About how many bytes [`Val::show`] takes at most.
    pub(super) fn shown(&self) -> usize {
        /// A node with every character of its 64 bytes escaped.
        const NODE: usize = 400;
        /// More are more than any text may be long.
        const MANY: usize = 20_000;
        if let Some(text) = self.as_text() {
            return text.len();
        }
        if let Self::Url(url) = self {
            return url.text.len();
        }
        if let Self::Semver(version) = self {
            return version.text.len();
        }
        if let Self::Optional(Some(value)) = self {
            return value.shown();
        }
        match self.len() {
            Some(_) => self.weight(MANY) * NODE,
            None => 32,
        }
    }

    /// As messages tell it: the beginning of a text, of lists and maps only that they are.
    pub(super) fn brief(&self) -> String {
        match (self.as_text(), self.shown()) {
            (Some(text), _) => text.chars().take(256).collect(),
            (None, 0..=256) => self.show(),
            (None, _) => self.kind().to_owned(),
        }
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

fn weigh_data(value: &Value, sum: &mut usize, limit: usize) {
    let mut below = |value: &Value| {
        if *sum <= limit {
            *sum += 1;
            weigh_data(value, sum, limit);
        }
    };
    match value {
        Value::Array(items) => items.iter().for_each(&mut below),
        Value::Object(map) => map.values().for_each(&mut below),
        Value::String(text) => *sum += text.len() / 64,
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
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
    if let (Some(mut all), Some(others)) = (left.each(), right.each())
        && (left.is_list() == right.is_list())
    {
        return left.len() == right.len()
            && if left.is_list() {
                all.zip(others).all(|((_, left), (_, right))| same(&left, &right))
            } else {
                all.all(|(key, left)| right.at(&key).is_some_and(|right| same(&left, &right)))
            };
    }
    match (left, right) {
        (Val::Null, Val::Null) => true,
        (Val::Bool(left), Val::Bool(right)) => left == right,
        (Val::Text(left), Val::Text(right)) => **left == **right,
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
        (Val::Text(left), Val::Text(right)) => Some((**left).cmp(&**right)),
        (Val::Bool(left), Val::Bool(right)) => Some(left.cmp(right)),
        (Val::Duration(left), Val::Duration(right)) => Some(left.cmp(right)),
        (Val::Timestamp(left), Val::Timestamp(right)) => Some(left.cmp(right)),
        (left, right) => left.float()?.partial_cmp(&right.float()?),
    }
}

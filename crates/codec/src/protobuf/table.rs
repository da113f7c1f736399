//! The table of messages, read once from the committed text.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

/// What `cargo xtask codegen protobuf` wrote; its head explains the form.
const TEXT: &str = include_str!("table.txt");

static TABLE: LazyLock<Table> = LazyLock::new(|| Table::read(TEXT));

/// Kinds of `meta.v1` that stand in any group's version.
const EVERYWHERE: [&str; 12] = [
    "APIGroup",
    "APIGroupList",
    "APIResourceList",
    "APIVersions",
    "CreateOptions",
    "DeleteOptions",
    "GetOptions",
    "ListOptions",
    "PatchOptions",
    "Status",
    "UpdateOptions",
    "WatchEvent",
];

/// All messages and where the kinds among them are.
pub(super) struct Table {
    messages: Vec<Message>,
    kinds: BTreeMap<&'static str, BTreeMap<&'static str, usize>>,
    everywhere: BTreeMap<&'static str, usize>,
}

/// One message.
pub(super) struct Message {
    /// How its JSON looks.
    pub(super) shape: Shape,
    /// Its fields by rising number.
    pub(super) fields: Vec<Field>,
}

/// How a message looks in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// An object of its fields.
    Object,
    /// A number or text with a unit.
    Quantity,
    /// A number or text.
    IntOrString,
    /// RFC 3339, whole seconds.
    Time,
    /// RFC 3339, microseconds.
    MicroTime,
    /// Go's notation of a span: `5m0s`.
    Duration,
    /// Any JSON, carried as text.
    Json,
    /// Any JSON, or an object in an envelope.
    RawExtension,
    /// A list of texts.
    Texts,
    /// A schema or a list of schemas.
    SchemaOrArray,
    /// A schema or true or false.
    SchemaOrBool,
    /// A schema or a list of texts.
    SchemaOrTexts,
}

/// The type of a field's single value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Bytes,
    Bool,
    Int32,
    Int64,
    Double,
    /// The message's place in the table.
    Message(usize),
}

/// How often a field stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Many {
    One,
    List,
    Map,
}

/// When an empty or zero value is shown in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Zero {
    /// A pointer: whatever is on the wire was set.
    Set,
    /// Required: always shown.
    Shown,
    /// Left out; messages that are empty are shown all the same.
    Omitted,
    /// Left out, messages too.
    OmittedMessage,
}

/// One field.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) number: u32,
    /// The name in JSON; empty when its fields stand in the parent's object.
    pub(super) json: &'static str,
    pub(super) kind: Kind,
    pub(super) many: Many,
    pub(super) zero: Zero,
}

impl Field {
    /// Whether the message's fields stand in the parent's JSON object.
    pub(super) fn is_inline(&self) -> bool {
        self.json.is_empty()
    }
}

impl Message {
    /// The field with a number.
    pub(super) fn field(&self, number: u32) -> Option<&Field> {
        let guess = usize::try_from(number).ok()?.checked_sub(1)?;
        match self.fields.get(guess) {
            Some(field) if field.number == number => Some(field),
            _ => {
                let at = self
                    .fields
                    .binary_search_by_key(&number, |field| field.number)
                    .ok()?;
                self.fields.get(at)
            }
        }
    }
}

impl Table {
    /// The one table.
    pub(super) fn get() -> &'static Self {
        &TABLE
    }

    /// A message by its place.
    pub(super) fn message(&self, at: usize) -> &Message {
        &self.messages[at]
    }

    /// Every kind's `apiVersion` and `kind`.
    #[cfg(test)]
    pub(super) fn all_kinds(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.kinds
            .iter()
            .flat_map(|(version, kinds)| kinds.keys().map(|kind| (*version, *kind)))
    }

    /// Where the message of a kind is.
    pub(super) fn kind(&self, api_version: &str, kind: &str) -> Option<usize> {
        let own = self.kinds.get(api_version).and_then(|kinds| kinds.get(kind));
        own.or_else(|| self.everywhere.get(kind)).copied()
    }

    fn read(text: &'static str) -> Self {
        let lines = || {
            text.lines()
                .filter(|line| !line.starts_with('#') && !line.is_empty())
        };
        // first where each message is, so that fields can point at it
        let mut places: HashMap<(&str, &str), usize> = HashMap::new();
        let mut package = "";
        for line in lines() {
            match line.strip_prefix("= ") {
                Some(head) => package = head.split(' ').next().unwrap_or_default(),
                None => {
                    let place = places.len();
                    places.insert((package, name_of(line)), place);
                }
            }
        }
        let mut table = Self {
            messages: Vec::with_capacity(places.len()),
            kinds: BTreeMap::new(),
            everywhere: BTreeMap::new(),
        };
        let mut version = "";
        for line in lines() {
            if let Some(head) = line.strip_prefix("= ") {
                (package, version) = head.split_once(' ').unwrap_or((head, "-"));
                continue;
            }
            let name = name_of(line);
            let place = table.messages.len();
            if line.split(' ').next().is_some_and(|word| word.ends_with('*')) {
                table.kinds.entry(version).or_default().insert(name, place);
            }
            if package == "meta.v1" && EVERYWHERE.contains(&name) {
                table.everywhere.insert(name, place);
            }
            let fields = line
                .split(' ')
                .skip(1)
                .map(|text| field(text, package, &places))
                .collect();
            table.messages.push(Message {
                shape: shape(package, name),
                fields,
            });
        }
        table
    }
}

fn name_of(line: &'static str) -> &'static str {
    line.split([' ', '*']).next().unwrap_or_default()
}

fn shape(package: &str, name: &str) -> Shape {
    match (package.split('.').next().unwrap_or_default(), name) {
        ("api", "Quantity" | "QuantityValue") => Shape::Quantity,
        ("util", "IntOrString") => Shape::IntOrString,
        ("meta", "Time") => Shape::Time,
        ("meta", "MicroTime") => Shape::MicroTime,
        ("meta", "Duration") => Shape::Duration,
        ("meta", "FieldsV1") | ("apiextensions", "JSON") => Shape::Json,
        ("pkg", "RawExtension") => Shape::RawExtension,
        ("meta", "Verbs") | ("authentication" | "authorization" | "certificates", "ExtraValue") => {
            Shape::Texts
        }
        ("apiextensions", "JSONSchemaPropsOrArray") => Shape::SchemaOrArray,
        ("apiextensions", "JSONSchemaPropsOrBool") => Shape::SchemaOrBool,
        ("apiextensions", "JSONSchemaPropsOrStringArray") => Shape::SchemaOrTexts,
        _ => Shape::Object,
    }
}

/// Reads `NUMBER:JSONNAME:TYPE`; the committed table is well formed, which a test proves.
fn field(text: &'static str, package: &'static str, places: &HashMap<(&str, &str), usize>) -> Field {
    let mut parts = text.splitn(3, ':');
    let mut part = || parts.next().unwrap_or_default();
    let (number, json, code) = (part(), part(), part());
    let (many, code) = match code.as_bytes().first() {
        Some(b'[') => (Many::List, &code[1..]),
        Some(b'{') => (Many::Map, &code[1..]),
        _ => (Many::One, code),
    };
    let name = code.trim_end_matches(['?', '!', 'z', '^']);
    let zero = match &code[name.len()..] {
        "?" | "?z" => Zero::Set,
        "!" => Zero::Shown,
        "z" => Zero::OmittedMessage,
        _ => Zero::Omitted,
    };
    let kind = match name {
        "s" => Kind::Text,
        "b" => Kind::Bytes,
        "t" => Kind::Bool,
        "i" => Kind::Int32,
        "l" => Kind::Int64,
        "d" => Kind::Double,
        name => {
            let key = name.split_once('/').unwrap_or((package, name));
            Kind::Message(
                places
                    .get(&key)
                    .copied()
                    .expect("the table names only messages that it holds"),
            )
        }
    };
    let number = number.parse().expect("the table's field numbers are numbers");
    Field {
        number,
        json,
        kind,
        many,
        zero,
    }
}

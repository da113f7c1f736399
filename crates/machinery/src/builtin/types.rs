//! The built-in types, and schemas made of them on demand.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock, OnceLock};

use serde_json::Value;
use smol_str::SmolStr;

use crate::Gvk;
use crate::schema::formats;
use crate::schema::{Additional, Kind, Link, ListType, PatchStrategy, Schema};

/// What `cargo xtask codegen types` wrote; its head explains the form.
const TEXT: &str = include_str!("types.txt");

static LIBRARY: LazyLock<Library> = LazyLock::new(|| Library::read(TEXT));

/// Types of what servers report, whose required fields are not asked of whoever writes them.
const REPORTED: [&str; 9] = [
    "AttachedVolume",
    "ContainerStateTerminated",
    "DaemonEndpoint",
    "Event",
    "HostIP",
    "NodeSystemInfo",
    "PodIP",
    "ResourceHealth",
    "RoleRef",
];

/// The schema of a built-in kind.
///
/// Every field may be `null`, as Go reads it. A field is required where its Go type's zero value would be refused by
/// Kubernetes' own validation (texts and objects, and a pod's containers); the fields that are merely always written
/// are not, so this is less than the published OpenAPI says.
#[must_use]
pub fn schema(gvk: &Gvk) -> Option<&'static Schema> {
    let library = Library::get();
    library.kind(&gvk.group, &gvk.version, &gvk.kind).map(resolve)
}

/// The schema of a built-in type by its name in OpenAPI: `io.k8s.api.core.v1.PodSpec`.
#[must_use]
pub fn schema_by_name(name: &str) -> Option<&'static Schema> {
    Library::get().named(name).map(resolve)
}

/// Gives the schema of a type by its place in the table.
fn resolve(index: u32) -> &'static Schema {
    static EMPTY: LazyLock<Schema> = LazyLock::new(Schema::default);
    let library = Library::get();
    match usize::try_from(index).ok().and_then(|at| library.cells.get(at)) {
        Some(cell) => cell.get_or_init(|| library.build(index)),
        None => &EMPTY,
    }
}

/// All built-in types; a type's line is read when it is asked for.
pub(crate) struct Library {
    lines: Vec<Line>,
    by_alias: HashMap<(&'static str, &'static str), u32>,
    kinds: BTreeMap<(&'static str, &'static str, &'static str), u32>,
    cells: Vec<OnceLock<Schema>>,
}

struct Line {
    alias: &'static str,
    package: &'static str,
    text: &'static str,
}

/// One type as the table states it.
pub(crate) struct TypeDef {
    /// The name in OpenAPI.
    pub(crate) full_name: String,
    /// A map that has one owner.
    pub(crate) atomic: bool,
    /// Group, version and kind of each kind that it is.
    pub(crate) kinds: Vec<(&'static str, &'static str, &'static str)>,
    /// What it is made of.
    pub(crate) body: Body,
}

/// What a type is made of.
pub(crate) enum Body {
    /// A struct.
    Fields(Vec<Field>),
    /// Something simpler.
    Plain(Plain),
}

/// A type without fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plain {
    Text,
    Int32,
    Int64,
    Bool,
    Double,
    Base64,
    Time,
    Object,
    Anything,
    Quantity,
    IntOrString,
}

/// The shape of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Shape {
    Plain(Plain),
    List(Box<Shape>),
    Map(Box<Shape>),
    /// A type by its place in the table.
    Type(u32),
}

/// A field of a struct.
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) required: bool,
    pub(crate) shape: Shape,
    /// The values allowed for it, or for its items.
    pub(crate) allowed: Vec<String>,
    pub(crate) default: Option<&'static str>,
    pub(crate) list_type: Option<&'static str>,
    pub(crate) list_map_keys: Vec<&'static str>,
    pub(crate) atomic_map: bool,
    pub(crate) patch_strategy: Option<&'static str>,
    pub(crate) patch_merge_key: Option<&'static str>,
}

impl Library {
    /// The one library.
    pub(crate) fn get() -> &'static Self {
        &LIBRARY
    }

    /// The place of a kind's type.
    pub(crate) fn kind(&self, group: &str, version: &str, kind: &str) -> Option<u32> {
        self.kinds.get(&(group, version, kind)).copied()
    }

    /// The place of a type by its name in OpenAPI.
    pub(crate) fn named(&self, full: &str) -> Option<u32> {
        let (package, name) = full.rsplit_once('.')?;
        let alias_at = package.rmatch_indices('.').nth(1).map_or(0, |(at, _)| at + 1);
        let index = *self.by_alias.get(&(&package[alias_at..], name))?;
        (self.line(index).package == package).then_some(index)
    }

    /// The name of a type in OpenAPI.
    pub(crate) fn full_name(&self, index: u32) -> String {
        let line = self.line(index);
        format!("{}.{}", line.package, name_of(line.text))
    }

    fn line(&self, index: u32) -> &Line {
        &self.lines[usize::try_from(index).unwrap_or(usize::MAX)]
    }

    fn read(text: &'static str) -> Self {
        let (mut alias, mut package) = ("", "");
        let mut lines = Vec::new();
        let mut by_alias = HashMap::new();
        let mut kinds = BTreeMap::new();
        for text in text.lines().filter(|line| !line.starts_with('#')) {
            if let Some(head) = text.strip_prefix("= ") {
                (alias, package) = head.split_once(' ').unwrap_or((head, ""));
                continue;
            }
            let index = u32::try_from(lines.len()).unwrap_or(u32::MAX);
            by_alias.insert((alias, name_of(text)), index);
            for kind in kinds_of(text) {
                kinds.insert(kind, index);
            }
            lines.push(Line { alias, package, text });
        }
        let cells = lines.iter().map(|_| OnceLock::new()).collect();
        Self {
            lines,
            by_alias,
            kinds,
            cells,
        }
    }

    /// Reads a type's line.
    pub(crate) fn define(&self, index: u32) -> TypeDef {
        let line = self.line(index);
        let (head, rest) = line.text.split_once(' ').unwrap_or((line.text, ""));
        let body = match rest.strip_prefix('=') {
            Some(code) => match self.shape(line.alias, code) {
                Shape::Plain(plain) => Body::Plain(plain),
                Shape::List(_) | Shape::Map(_) | Shape::Type(_) => Body::Plain(Plain::Anything),
            },
            None => Body::Fields(
                rest.split(' ')
                    .filter_map(|text| self.field(line.alias, text))
                    .collect(),
            ),
        };
        TypeDef {
            full_name: self.full_name(index),
            atomic: head.split('@').next().is_some_and(|name| name.ends_with('#')),
            kinds: kinds_of(line.text).collect(),
            body,
        }
    }

    fn field(&self, alias: &str, text: &'static str) -> Option<Field> {
        let mut parts = text.split(';');
        let (name, code) = parts.next()?.split_once(':')?;
        let mut field = Field {
            name: name.trim_end_matches('*'),
            required: name.ends_with('*'),
            shape: self.shape(alias, code),
            allowed: Vec::new(),
            default: None,
            list_type: None,
            list_map_keys: Vec::new(),
            atomic_map: false,
            patch_strategy: None,
            patch_merge_key: None,
        };
        for fact in parts {
            match fact.split_once('=') {
                Some(("E", values)) => {
                    field.allowed = values.split(',').map(|value| value.replace('~', " ")).collect()
                }
                Some(("D", value)) => field.default = Some(value),
                Some(("L", list)) => {
                    let mut words = list.split(',');
                    field.list_type = words.next();
                    field.list_map_keys = words.collect();
                }
                Some(("P", strategy)) => field.patch_strategy = Some(strategy),
                Some(("K", key)) => field.patch_merge_key = Some(key),
                _ => field.atomic_map = true,
            }
        }
        Some(field)
    }

    fn shape(&self, alias: &str, code: &str) -> Shape {
        if let Some(inner) = code.strip_prefix('[') {
            return Shape::List(Box::new(self.shape(alias, inner)));
        }
        if let Some(inner) = code.strip_prefix('{') {
            return Shape::Map(Box::new(self.shape(alias, inner)));
        }
        Shape::Plain(match code {
            "s" => Plain::Text,
            "i" => Plain::Int32,
            "l" => Plain::Int64,
            "t" => Plain::Bool,
            "d" => Plain::Double,
            "b" => Plain::Base64,
            "time" => Plain::Time,
            "o" => Plain::Object,
            "a" => Plain::Anything,
            "q" => Plain::Quantity,
            "n" => Plain::IntOrString,
            name => {
                let key = name.split_once('/').unwrap_or((alias, name));
                // a test proves that the table names only types that it holds
                return self
                    .by_alias
                    .get(&key)
                    .map_or(Shape::Plain(Plain::Anything), |index| Shape::Type(*index));
            }
        })
    }

    fn build(&self, index: u32) -> Schema {
        let define = self.define(index);
        let mut node = match define.body {
            Body::Plain(plain) => plain_schema(plain),
            Body::Fields(fields) => {
                let mut node = Schema {
                    kind: Kind::Object,
                    nullable: true,
                    ..Schema::default()
                };
                let type_name = name_of(self.line(index).text);
                let required: Vec<SmolStr> = fields
                    .iter()
                    .filter(|field| is_asked(type_name, field))
                    .map(|field| field.name.into())
                    .collect();
                if !required.is_empty() {
                    node.rules_mut().required = required;
                }
                node.properties = fields
                    .iter()
                    .map(|field| (field.name.into(), field_link(field)))
                    .collect();
                node
            }
        };
        node.name = define.full_name.into();
        node.atomic_map = define.atomic;
        node
    }
}

/// Whether a server refuses an object without the field.
fn is_asked(type_name: &str, field: &Field) -> bool {
    let reported = ["Status", "Condition", "List"]
        .iter()
        .any(|end| type_name.ends_with(end));
    if !field.required
        || reported
        || REPORTED.contains(&type_name) && field.name != "kind" && field.name != "name"
    {
        return false;
    }
    match &field.shape {
        Shape::Plain(Plain::Text | Plain::Base64 | Plain::Quantity | Plain::IntOrString) => true,
        Shape::Plain(_) | Shape::Map(_) => false,
        Shape::List(_) => type_name == "PodSpec" && field.name == "containers",
        Shape::Type(index) => !matches!(
            name_of(Library::get().line(*index).text),
            "Time" | "MicroTime" | "ObjectMeta"
        ),
    }
}

fn plain_schema(plain: Plain) -> Schema {
    let (kind, format) = match plain {
        Plain::Text => (Kind::String, ""),
        Plain::Int32 => (Kind::Integer, "int32"),
        Plain::Int64 => (Kind::Integer, "int64"),
        Plain::Bool => (Kind::Boolean, ""),
        Plain::Double => (Kind::Number, "double"),
        Plain::Base64 => (Kind::String, formats::BYTES),
        Plain::Time => (Kind::String, "date-time"),
        Plain::Object => (Kind::Object, ""),
        Plain::Anything | Plain::Quantity => (Kind::Any, ""),
        Plain::IntOrString => (Kind::IntOrString, ""),
    };
    let mut node = Schema {
        kind,
        nullable: true,
        preserve_unknown: matches!(plain, Plain::Object | Plain::Anything),
        ..Schema::default()
    };
    if !format.is_empty() {
        node.rules_mut().format = format.into();
    }
    node
}

fn shape_link(shape: &Shape, allowed: &[String]) -> Link {
    match shape {
        Shape::Type(index) => Link::named(resolve, *index),
        Shape::Plain(_) | Shape::List(_) | Shape::Map(_) => Link::of(shape_schema(shape, allowed)),
    }
}

fn shape_schema(shape: &Shape, allowed: &[String]) -> Schema {
    match shape {
        // shallow: its fields stay links
        Shape::Type(index) => resolve(*index).clone(),
        Shape::Plain(plain) => {
            let mut node = plain_schema(*plain);
            if !allowed.is_empty() {
                node.rules_mut().allowed =
                    Some(allowed.iter().map(|value| Value::from(value.as_str())).collect());
            }
            node
        }
        Shape::List(inner) => Schema {
            kind: Kind::Array,
            nullable: true,
            items: Some(shape_link(inner, allowed)),
            ..Schema::default()
        },
        Shape::Map(inner) => Schema {
            kind: Kind::Object,
            nullable: true,
            additional: Additional::Values(shape_link(inner, allowed)),
            ..Schema::default()
        },
    }
}

fn field_link(field: &Field) -> Link {
    let has_facts = field.list_type.is_some()
        || field.default.is_some()
        || field.atomic_map
        || field.patch_strategy.is_some()
        || field.patch_merge_key.is_some();
    if !has_facts {
        return shape_link(&field.shape, &field.allowed);
    }
    let mut node = shape_schema(&field.shape, &field.allowed);
    node.list_type = match field.list_type {
        Some("map") => Some(ListType::Map),
        Some("set") => Some(ListType::Set),
        Some(_) => Some(ListType::Atomic),
        None => node.list_type,
    };
    node.list_map_keys = field
        .list_map_keys
        .iter()
        .map(|key| SmolStr::new_static(key))
        .collect();
    node.atomic_map |= field.atomic_map;
    node.default = field
        .default
        .map(|text| Arc::new(default_value(&field.shape, text)));
    node.patch_strategy = field
        .patch_strategy
        .map_or(PatchStrategy::Unset, PatchStrategy::parse);
    node.patch_merge_key = field.patch_merge_key.map(SmolStr::new_static);
    Link::of(node)
}

/// A default as the field's type has it.
pub(crate) fn default_value(shape: &Shape, text: &str) -> Value {
    match shape {
        Shape::Plain(Plain::Int32 | Plain::Int64) => text.parse::<i64>().map_or(Value::Null, Value::from),
        Shape::Plain(Plain::Bool) => Value::from(text == "true"),
        Shape::Plain(_) | Shape::List(_) | Shape::Map(_) | Shape::Type(_) => Value::from(text),
    }
}

fn name_of(line: &'static str) -> &'static str {
    line.split([' ', '#', '@']).next().unwrap_or_default()
}

fn kinds_of(line: &'static str) -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let head = line.split(' ').next().unwrap_or_default();
    head.split('@').skip(1).filter_map(|kind| {
        let (home, kind) = kind.rsplit_once('/')?;
        let (group, version) = home.split_once('/')?;
        Some((group, version, kind))
    })
}

#[cfg(test)]
impl Library {
    /// The number of types.
    pub(crate) fn len(&self) -> u32 {
        u32::try_from(self.lines.len()).unwrap()
    }
}

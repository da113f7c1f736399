//! How a schema's nodes merge: scalars, lists that are one value, sets or maps, maps that are one value or not. What
//! a schema does not describe is deduced from the value: maps are granular, lists are one value.

use serde_json::{Map, Value};
use smol_str::SmolStr;

use super::path::{PathElement, Scalar};
use crate::schema::{self, Additional, Kind, Link, ListType, Schema};

/// The type of a place.
#[derive(Debug, Clone, Copy)]
pub(super) enum Type<'a> {
    /// As a schema says. `open`: some node above keeps unknown fields. `whole`: a whole object.
    Of {
        node: &'a Schema,
        open: bool,
        whole: bool,
    },
    /// As the value looks.
    Deduced,
    /// One value, whatever it is.
    Atomic,
}

/// What a value at a place may be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Atom<'a> {
    pub(super) map: Option<MapShape<'a>>,
    pub(super) scalar: Option<Kind>,
    pub(super) list: Option<ListShape<'a>>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct MapShape<'a> {
    pub(super) atomic: bool,
    of: Type<'a>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct ListShape<'a> {
    pub(super) relation: Relation<'a>,
    pub(super) item: Type<'a>,
}

/// How a list's items relate to each other.
#[derive(Debug, Clone, Copy)]
pub(super) enum Relation<'a> {
    /// The list is one value.
    Atomic,
    /// Scalars, each at most once.
    Set,
    /// Maps, told apart by these fields.
    Keys(Keys<'a>),
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Keys<'a> {
    List(&'a [smol_str::SmolStr]),
    One(&'a str),
}

impl<'a> Keys<'a> {
    fn names(self) -> Vec<&'a str> {
        match self {
            Self::List(names) => names.iter().map(smol_str::SmolStr::as_str).collect(),
            Self::One(name) => vec![name],
        }
    }
}

impl<'a> Atom<'a> {
    /// Only what fits a value, if that is known.
    pub(super) fn for_value(self, value: Option<&Value>) -> Self {
        let none = Atom {
            map: None,
            scalar: None,
            list: None,
        };
        match value {
            Some(Value::Object(_)) if self.map.is_some() => Atom {
                map: self.map,
                ..none
            },
            Some(Value::Array(_)) if self.list.is_some() => Atom {
                list: self.list,
                ..none
            },
            Some(Value::Bool(_) | Value::Number(_) | Value::String(_)) if self.scalar.is_some() => Atom {
                scalar: self.scalar,
                ..none
            },
            Some(_) | None => self,
        }
    }

    /// Whether two atoms of one type were narrowed to the same.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        (self.map.is_some(), self.scalar.is_some(), self.list.is_some())
            == (other.map.is_some(), other.scalar.is_some(), other.list.is_some())
    }
}

impl<'a> Type<'a> {
    /// The type of whole objects of a schema; deduced without one.
    pub(super) fn root(schema: Option<&'a Schema>) -> Self {
        match schema {
            Some(node) => Self::Of {
                node,
                open: node.preserve_unknown,
                whole: true,
            },
            None => Self::Deduced,
        }
    }

    fn link(link: &'a Link, open: bool) -> Self {
        let node: &Schema = link;
        let open = match link {
            Link::Inline(_) => open,
            Link::Named(_, _) => false,
        };
        if node.name.ends_with("runtime.RawExtension") {
            return Self::Atomic;
        }
        Self::Of {
            node,
            open: open || node.preserve_unknown,
            whole: node.embedded_resource,
        }
    }

    pub(super) fn atom(self) -> Atom<'a> {
        let map = MapShape {
            atomic: matches!(self, Self::Atomic),
            of: self,
        };
        let Self::Of { node, open, .. } = self else {
            return Atom {
                map: Some(map),
                scalar: Some(Kind::Any),
                list: Some(ListShape {
                    relation: Relation::Atomic,
                    item: Self::Atomic,
                }),
            };
        };
        let map = MapShape {
            atomic: node.atomic_map,
            ..map
        };
        let list = ListShape {
            relation: relation(node),
            item: match &node.items {
                Some(link) => Self::link(link, open),
                None => Self::Atomic,
            },
        };
        let none = Atom {
            map: None,
            scalar: None,
            list: None,
        };
        match node.kind {
            Kind::Any => Atom {
                map: Some(map),
                scalar: Some(Kind::Any),
                list: Some(list),
            },
            Kind::Object => Atom {
                map: Some(map),
                ..none
            },
            Kind::Array => Atom {
                list: Some(list),
                ..none
            },
            Kind::IntOrString => Atom {
                scalar: Some(Kind::Any),
                ..none
            },
            Kind::String if node.rules.as_ref().is_some_and(|rules| !rules.format.is_empty()) => Atom {
                scalar: Some(Kind::Any),
                ..none
            },
            Kind::String if node.name.ends_with("resource.Quantity") => Atom {
                scalar: Some(Kind::Any),
                ..none
            },
            kind @ (Kind::String | Kind::Integer | Kind::Number | Kind::Boolean) => Atom {
                scalar: Some(kind),
                ..none
            },
        }
    }
}

fn relation(node: &Schema) -> Relation<'_> {
    match node.list_type {
        Some(ListType::Atomic) => Relation::Atomic,
        Some(ListType::Set) => Relation::Set,
        Some(ListType::Map) if node.list_map_keys.is_empty() => Relation::Atomic,
        Some(ListType::Map) => Relation::Keys(Keys::List(&node.list_map_keys)),
        None if node.patch_strategy.merges() => match &node.patch_merge_key {
            Some(key) => Relation::Keys(Keys::One(key)),
            None => Relation::Set,
        },
        None => Relation::Atomic,
    }
}

impl<'a> MapShape<'a> {
    /// Whether a field is one that the schema names (others are free keys).
    pub(super) fn declares(&self, key: &str) -> bool {
        match self.of {
            Type::Of { node, whole, .. } => {
                node.properties.contains_key(key)
                    || (whole && matches!(key, "apiVersion" | "kind" | "metadata"))
            }
            Type::Deduced | Type::Atomic => false,
        }
    }

    /// The type of a field; `None` if the schema has no such field.
    pub(super) fn field(&self, key: &str) -> Option<Type<'a>> {
        let Type::Of { node, open, whole } = self.of else {
            return Some(self.of);
        };
        let declared = node.properties.get(key);
        if whole && key == "metadata" && declared.is_none_or(|link| link.properties.is_empty()) {
            return Some(Type::Of {
                node: schema::object_meta(),
                open: false,
                whole: false,
            });
        }
        match (declared, &node.additional) {
            (Some(link), _) | (None, Additional::Values(link)) => Some(Type::link(link, open)),
            (None, Additional::Any) => Some(Type::Deduced),
            (None, Additional::Forbidden) => None,
            (None, Additional::Unset) if open || node.properties.is_empty() => Some(Type::Deduced),
            (None, Additional::Unset) if whole && matches!(key, "apiVersion" | "kind") => Some(Type::Deduced),
            (None, Additional::Unset) => None,
        }
    }
}

impl ListShape<'_> {
    /// The step to an item of a set or keyed list.
    pub(super) fn step(&self, item: &Value) -> Result<PathElement, String> {
        match self.relation {
            Relation::Atomic => Err("invalid indexing of non-associative list".to_owned()),
            Relation::Set => match item {
                Value::Object(_) => {
                    Err("associative list without keys has an element that's a map type".to_owned())
                }
                Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
                Value::Null => {
                    Err("associative list without keys has an element that's an explicit null".to_owned())
                }
                Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                    Ok(PathElement::Value(Scalar::from(item)))
                }
            },
            Relation::Keys(keys) => match item {
                Value::Object(map) => self.keyed(map, keys),
                Value::Null => Err("associative list with keys may not have a null element".to_owned()),
                Value::Array(_) | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                    Err("associative list with keys may not have non-map elements".to_owned())
                }
            },
        }
    }

    fn keyed(&self, map: &Map<String, Value>, keys: Keys<'_>) -> Result<PathElement, String> {
        let node = match self.item {
            Type::Of { node, .. } => Some(node),
            Type::Deduced | Type::Atomic => None,
        };
        let mut fields = Vec::new();
        for name in keys.names() {
            let default = || node?.properties.get(name)?.default.as_deref();
            if let Some(value) = map.get(name).or_else(default) {
                fields.push((SmolStr::new(name), Scalar::from(value)));
            }
        }
        if fields.is_empty() {
            let names: Vec<String> = keys.names().into_iter().map(crate::field::quote).collect();
            return Err(format!(
                "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
                names.join(" ")
            ));
        }
        fields.sort_by(|left, right| left.0.cmp(&right.0));
        Ok(PathElement::Key(fields))
    }
}

//! Structural schemas: what fields an object may have, what they default to and what they must fulfil. They come
//! from a CustomResourceDefinition's `openAPIV3Schema` ([`Schema::from_openapi`]) or from a table of built-in types.
//!
//! A schema is a tree of nodes whose edges are [`Link`]s. A link either holds its node (`Link::of`) or names it by
//! an index into a library of types that is built lazily (`Link::named`), so that 1,500 types which share each
//! other, some of them recursive, cost nothing until they are used:
//! ```
//! use std::sync::OnceLock;
//! use machinery::schema::{Kind, Link, Schema};
//!
//! static CELLS: [OnceLock<Schema>; 1] = [const { OnceLock::new() }; 1];
//!
//! /// One function per library; it must always give the same schema for an index.
//! fn resolve(index: u32) -> &'static Schema {
//!     CELLS[index as usize].get_or_init(|| match index {
//!         // a recursive type: JSONSchemaProps
//!         _ => {
//!             let mut node = Schema::of(Kind::Object);
//!             node.name = "io.example.JSONSchemaProps".into();
//!             node.properties.insert("type".into(), Link::of(Schema::of(Kind::String)));
//!             node.properties.insert("not".into(), Link::named(resolve, 0));
//!             node
//!         }
//!     })
//! }
//! assert_eq!(resolve(0).property("not").unwrap().property("not").unwrap().kind, Kind::Object);
//! ```
//! Building a node must not resolve a link that may lead back to it. Where a field of a named type carries
//! extensions of its own (`x-kubernetes-patch-strategy: retainKeys` on `spec.strategy`), clone the (not recursive)
//! node, change the clone and link it with [`Link::of`]; clones are shallow. `name` survives, for `$ref`s.

mod check;
mod default;
pub(crate) mod formats;
mod former;
mod parse;
mod pattern;
mod place;
mod prune;
mod raw;
mod rules;
mod structural;
mod structure;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use serde_json::Value;
use smol_str::SmolStr;

pub(crate) use formats::{holds as has_format, uri as is_uri};
pub use parse::{MAX_DEPTH, MAX_NODES, SchemaError};
pub use pattern::Pattern;
pub use prune::object_meta;
pub use raw::{RawError, duplicate_fields, nesting_depth};
pub use rules::Rule;
pub use structural::structural_problems;

/// The JSON type that a node allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Kind {
    /// Anything: no type is given.
    #[default]
    Any,
    /// A map with known or free keys.
    Object,
    /// A list.
    Array,
    /// A text.
    String,
    /// A number without a fraction.
    Integer,
    /// A number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// An integer or a text (`x-kubernetes-int-or-string`).
    IntOrString,
}

impl Kind {
    /// The name of the type, empty where there is not one alone.
    fn name(self) -> &'static str {
        match self {
            Self::Any | Self::IntOrString => "",
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }
}

/// What a map allows besides its known keys.
#[derive(Debug, Clone, Default)]
pub enum Additional {
    /// Nothing is said: unknown fields are pruned.
    #[default]
    Unset,
    /// `additionalProperties: true`: any key with any value.
    Any,
    /// `additionalProperties: false`.
    Forbidden,
    /// Any key, with values of this shape.
    Values(Link),
}

/// `x-kubernetes-list-type`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ListType {
    /// Replaced as a whole; also when nothing is said.
    #[default]
    Atomic,
    /// Scalars, each at most once.
    Set,
    /// Objects with key fields ([`Schema::list_map_keys`]).
    Map,
}

/// `x-kubernetes-patch-strategy`: what a strategic merge patch does to a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PatchStrategy {
    /// Maps are merged, lists are replaced.
    #[default]
    Unset,
    /// Lists are merged, by the merge key if there is one.
    Merge,
    /// Maps keep only the keys that the patch lists under `$retainKeys`.
    RetainKeys,
    /// Both: a merged list whose items retain keys.
    MergeRetainKeys,
    /// The field is replaced.
    Replace,
}

impl PatchStrategy {
    /// Whether a list of this strategy is merged.
    pub fn merges(self) -> bool {
        match self {
            Self::Merge | Self::MergeRetainKeys => true,
            Self::Unset | Self::RetainKeys | Self::Replace => false,
        }
    }

    /// Whether maps (the field itself, or a list's items) retain keys.
    pub fn retains_keys(self) -> bool {
        match self {
            Self::RetainKeys | Self::MergeRetainKeys => true,
            Self::Unset | Self::Merge | Self::Replace => false,
        }
    }

    /// From the extension's text.
    pub fn parse(text: &str) -> Self {
        let has = |word: &str| text.split(',').any(|part| part.trim() == word);
        match (has("merge"), has("retainKeys"), has("replace")) {
            (true, true, _) => Self::MergeRetainKeys,
            (true, false, _) => Self::Merge,
            (false, true, _) => Self::RetainKeys,
            (false, false, true) => Self::Replace,
            (false, false, false) => Self::Unset,
        }
    }

    /// The extension's text, empty if unset.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unset => "",
            Self::Merge => "merge",
            Self::RetainKeys => "retainKeys",
            Self::MergeRetainKeys => "merge,retainKeys",
            Self::Replace => "replace",
        }
    }
}

/// One node: a value's shape.
#[derive(Debug, Clone, Default)]
pub struct Schema {
    /// The JSON type.
    pub kind: Kind,
    /// The type's name in OpenAPI (`io.k8s.api.core.v1.Pod`), empty for an inline type.
    pub name: SmolStr,
    /// For people.
    pub description: SmolStr,
    /// `null` is allowed.
    pub nullable: bool,
    /// The known fields of an object.
    pub properties: BTreeMap<SmolStr, Link>,
    /// What an object allows besides.
    pub additional: Additional,
    /// The shape of a list's items.
    pub items: Option<Link>,
    /// What a missing value becomes.
    pub default: Option<Arc<Value>>,
    /// Unknown fields stay (`x-kubernetes-preserve-unknown-fields`).
    pub preserve_unknown: bool,
    /// It is an object with `apiVersion`, `kind` and `metadata` of its own.
    pub embedded_resource: bool,
    /// How a list merges in server-side apply; `None` where nothing is said.
    pub list_type: Option<ListType>,
    /// The key fields of a [`ListType::Map`].
    pub list_map_keys: Vec<SmolStr>,
    /// The map has one owner (`x-kubernetes-map-type: atomic`).
    pub atomic_map: bool,
    /// What a strategic merge patch does to the field that has this node.
    pub patch_strategy: PatchStrategy,
    /// The key by which a strategic merge patch finds a list's items.
    pub patch_merge_key: Option<SmolStr>,
    /// Further rules, absent for most nodes.
    pub rules: Option<Box<Rules>>,
    /// What is found here and below, once somebody asked.
    pub(crate) holds: Holdings,
}

/// What validation need not look for in values of a node where it is not there: in the node itself and all below.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Holds {
    /// Objects inside of objects.
    embedded: bool,
    /// Lists that are sets or maps.
    list_types: bool,
    /// Rules in CEL.
    rules: bool,
}

/// A place for [`Holds`]. A copy of a node starts with none, since it may be changed.
#[derive(Debug, Default)]
pub(crate) struct Holdings(OnceLock<Holds>);

impl Clone for Holdings {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// The less usual rules of a node.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// `format`
    pub format: SmolStr,
    /// Fields that must be there.
    pub required: Vec<SmolStr>,
    /// The allowed values, if restricted.
    pub allowed: Option<Vec<Value>>,
    /// The pattern of a text.
    pub pattern: Option<Pattern>,
    /// The least number.
    pub minimum: Option<f64>,
    /// Whether [`Rules::minimum`] itself is forbidden.
    pub exclusive_minimum: bool,
    /// The greatest number.
    pub maximum: Option<f64>,
    /// Whether [`Rules::maximum`] itself is forbidden.
    pub exclusive_maximum: bool,
    /// A number must be a multiple of this.
    pub multiple_of: Option<f64>,
    /// The fewest characters.
    pub min_length: Option<u64>,
    /// The most characters.
    pub max_length: Option<u64>,
    /// The fewest items.
    pub min_items: Option<u64>,
    /// The most items.
    pub max_items: Option<u64>,
    /// The fewest fields.
    pub min_properties: Option<u64>,
    /// The most fields.
    pub max_properties: Option<u64>,
    /// A list has no item twice.
    pub unique_items: bool,
    /// All must hold.
    pub all_of: Vec<Link>,
    /// One or more must hold.
    pub any_of: Vec<Link>,
    /// Exactly one must hold.
    pub one_of: Vec<Link>,
    /// Must not hold.
    pub not: Option<Link>,
    /// `x-kubernetes-validations`
    pub validations: Vec<Rule>,
}

impl Schema {
    /// A node that allows any value of a kind and knows no fields.
    pub fn of(kind: Kind) -> Self {
        Self {
            kind,
            ..Self::default()
        }
    }

    /// The node of a field: a known one, else what free keys have.
    pub fn property(&self, key: &str) -> Option<&Schema> {
        match (self.properties.get(key), &self.additional) {
            (Some(link), _) => Some(link),
            (None, Additional::Values(link)) => Some(link),
            (None, Additional::Unset | Additional::Any | Additional::Forbidden) => None,
        }
    }

    /// The node of a list's items.
    pub fn item(&self) -> Option<&Schema> {
        self.items.as_deref()
    }

    /// The rules to write to.
    pub fn rules_mut(&mut self) -> &mut Rules {
        self.rules.get_or_insert_default()
    }

    /// The node at the end of a path of fields (not through lists).
    pub fn at<'a>(&'a self, path: impl IntoIterator<Item = &'a str>) -> Option<&'a Schema> {
        path.into_iter().try_fold(self, |node, key| node.property(key))
    }

    /// What is found in this node and below. The node may not be changed any more once this was asked.
    fn holds(&self) -> Holds {
        *self.holds.0.get_or_init(|| {
            let mut found = Holds::default();
            self.search(&mut found, &mut BTreeSet::new());
            found
        })
    }

    /// Adds what is found here and below, in each named node once.
    fn search(&self, found: &mut Holds, seen: &mut BTreeSet<(usize, u32)>) {
        found.embedded |= self.embedded_resource;
        found.list_types |= matches!(self.list_type, Some(ListType::Set | ListType::Map));
        found.rules |= self
            .rules
            .as_ref()
            .is_some_and(|rules| !rules.validations.is_empty());
        let free = match &self.additional {
            Additional::Values(link) => Some(link),
            Additional::Unset | Additional::Any | Additional::Forbidden => None,
        };
        for link in self.properties.values().chain(free).chain(&self.items) {
            match link {
                Link::Inline(node) => node.search(found, seen),
                Link::Named(resolve, index) => {
                    if seen.insert((*resolve as usize, *index)) {
                        link.search(found, seen);
                    }
                }
            }
        }
    }

    /// Whether values are maps with granular or free fields, as far as is known.
    pub fn is_object(&self) -> bool {
        self.kind == Kind::Object
            || !self.properties.is_empty()
            || matches!(self.additional, Additional::Values(_))
    }
}

/// Gives the node of an index; the same node every time.
pub type Resolve = fn(u32) -> &'static Schema;

/// An edge of the tree. It dereferences to the node at its end.
#[derive(Clone)]
pub enum Link {
    /// The node itself.
    Inline(Arc<Schema>),
    /// A node in a library, built when it is first asked for.
    Named(Resolve, u32),
}

impl Link {
    /// An edge to this node.
    pub fn of(node: Schema) -> Self {
        Self::Inline(Arc::new(node))
    }

    /// An edge to a library's node.
    pub fn named(resolve: Resolve, index: u32) -> Self {
        Self::Named(resolve, index)
    }
}

impl Deref for Link {
    type Target = Schema;

    fn deref(&self) -> &Schema {
        match self {
            Self::Inline(node) => node,
            Self::Named(resolve, index) => resolve(*index),
        }
    }
}

impl From<Schema> for Link {
    fn from(node: Schema) -> Self {
        Self::of(node)
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inline(node) => node.fmt(f),
            // A named type may be recursive.
            Self::Named(_, index) => write!(f, "Named({index})"),
        }
    }
}

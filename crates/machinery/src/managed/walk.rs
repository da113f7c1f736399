//! Walking values along their types: validation, the set of all fields, what differs between two values.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::path::PathElement;
use super::set::FieldSet;
use super::shape::{Atom, ListShape, MapShape, Relation, Type};
use crate::field;
use crate::schema::Kind;

/// Equal where `1` and `1.0` are the same number.
pub(super) fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left == right || left.as_f64() == right.as_f64(),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .all(|(key, left)| right.get(key).is_some_and(|right| same(left, right)))
        }
        (left, right) => left == right,
    }
}

/// What keeps a value from being of a type.
pub(super) fn validate(value: &Value, of: Type<'_>, path: &str, problems: &mut Vec<String>) {
    let mut report = |text: String| {
        problems.push(if path.is_empty() {
            text
        } else {
            format!("{path}: {text}")
        });
    };
    let atom = of.atom().for_value(Some(value));
    if let Some(shape) = atom.map {
        match value {
            Value::Null => {}
            Value::Object(map) => {
                for (key, value) in map {
                    let path = format!("{path}.{key}");
                    match shape.field(key) {
                        Some(of) => validate(value, of, &path, problems),
                        None => problems.push(format!("{path}: field not declared in schema")),
                    }
                }
            }
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                report(format!("expected map, got {}", field::shown(value)));
            }
        }
    } else if let Some(kind) = atom.scalar {
        let fits = match kind {
            Kind::Integer | Kind::Number => value.is_number(),
            Kind::String => value.is_string(),
            Kind::Boolean => value.is_boolean(),
            Kind::Any | Kind::IntOrString | Kind::Object | Kind::Array => {
                !value.is_object() && !value.is_array()
            }
        };
        if !fits && !value.is_null() {
            let wanted = match kind {
                Kind::Integer | Kind::Number => "numeric (int or float)",
                Kind::String => "string",
                Kind::Boolean => "boolean",
                Kind::Any | Kind::IntOrString | Kind::Object | Kind::Array => "any scalar",
            };
            report(format!("expected {wanted}, got {}", field::shown(value)));
        }
    } else if let Some(shape) = atom.list {
        match value {
            Value::Null => {}
            Value::Array(items) => validate_items(items, &shape, path, problems),
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
                report(format!("expected list, got {}", field::shown(value)));
            }
        }
    }
}

fn validate_items(items: &[Value], shape: &ListShape<'_>, path: &str, problems: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        let step = match shape.relation {
            Relation::Atomic => PathElement::Index(i64::try_from(index).unwrap_or(i64::MAX)),
            Relation::Set | Relation::Keys(_) => match shape.step(item) {
                Ok(step) => step,
                Err(problem) => {
                    problems.push(format!("{path}: element {index}: {problem}"));
                    return;
                }
            },
        };
        let below = format!("{path}{step}");
        if !seen.insert(step.clone()) {
            problems.push(format!("{path}: duplicate entries for key {step}"));
        }
        validate(item, shape.item, &below, problems);
    }
}

/// Every leaf and every list item of a value.
pub(super) fn field_set(value: &Value, of: Type<'_>) -> FieldSet {
    let mut set = FieldSet::default();
    collect(value, of, &mut Vec::new(), &mut set);
    set
}

fn collect(value: &Value, of: Type<'_>, path: &mut Vec<PathElement>, set: &mut FieldSet) {
    let atom = of.atom().for_value(Some(value));
    if let Some(shape) = atom.map {
        if shape.atomic {
            set.insert(path);
        } else if let Value::Object(map) = value {
            for (key, value) in map {
                path.push(PathElement::field(key));
                collect(value, shape.field(key).unwrap_or(Type::Deduced), path, set);
                let empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
                if empty || !shape.declares(key) {
                    set.insert(path);
                }
                path.pop();
            }
        }
    } else if atom.scalar.is_some() {
        set.insert(path);
    } else if let Some(shape) = atom.list {
        match (shape.relation, value) {
            (Relation::Atomic, _) => set.insert(path),
            (Relation::Set | Relation::Keys(_), Value::Array(items)) => {
                collect_items(items, &shape, path, set)
            }
            (Relation::Set | Relation::Keys(_), _) => {}
        }
    }
}

/// The items by their steps, in order of first appearance; items without a step are left out.
fn grouped<'a>(items: &'a [Value], shape: &ListShape<'_>) -> BTreeMap<PathElement, Vec<&'a Value>> {
    let mut groups: BTreeMap<PathElement, Vec<&Value>> = BTreeMap::new();
    for item in items {
        if let Ok(step) = shape.step(item) {
            groups.entry(step).or_default().push(item);
        }
    }
    groups
}

fn collect_items(items: &[Value], shape: &ListShape<'_>, path: &mut Vec<PathElement>, set: &mut FieldSet) {
    for (step, group) in grouped(items, shape) {
        path.push(step);
        if let [one] = group.as_slice() {
            collect(one, shape.item, path, set);
        }
        set.insert(path);
        path.pop();
    }
}

/// What differs between two values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Comparison {
    pub(super) removed: FieldSet,
    pub(super) modified: FieldSet,
    pub(super) added: FieldSet,
}

impl Comparison {
    /// Without some fields and all below them.
    pub(super) fn without(&self, fields: &FieldSet) -> Self {
        let Self {
            removed,
            modified,
            added,
        } = self;
        Self {
            removed: removed.recursive_difference(fields),
            modified: modified.recursive_difference(fields),
            added: added.recursive_difference(fields),
        }
    }
}

/// What differs between two values of one type.
pub(super) fn compare(left: &Value, right: &Value, of: Type<'_>) -> Comparison {
    let mut walk = Compare {
        path: Vec::new(),
        found: Comparison::default(),
    };
    walk.visit(Some(left), Some(right), of);
    walk.found
}

struct Compare {
    path: Vec<PathElement>,
    found: Comparison,
}

/// A list's items; none where there is no list.
pub(super) fn items_of(value: Option<&Value>) -> &[Value] {
    value
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

type Pair<'a> = (Option<&'a Value>, Option<&'a Value>);

impl Compare {
    fn visit(&mut self, left: Option<&Value>, right: Option<&Value>, of: Type<'_>) {
        let atom = of.atom();
        let (at_left, at_right) = (atom.for_value(left), atom.for_value(right));
        let leaf = if right.is_none() {
            self.handle((left, right), &at_left)
        } else {
            if left.is_some() && !at_left.is_like(&at_right) {
                self.handle((left, right), &at_left);
            }
            self.handle((left, right), &at_right)
        };
        if !leaf {
            if left.is_none() {
                self.found.added.insert(&self.path);
            } else if right.is_none() {
                self.found.removed.insert(&self.path);
            }
        }
    }

    /// Answers whether the place was taken as one value.
    fn handle(&mut self, pair: Pair<'_>, atom: &Atom<'_>) -> bool {
        if let Some(shape) = atom.map {
            self.maps(pair, &shape)
        } else if let (None, Some(shape)) = (atom.scalar, atom.list) {
            self.lists(pair, &shape)
        } else {
            self.leaf(pair);
            true
        }
    }

    fn leaf(&mut self, (left, right): Pair<'_>) {
        match (left, right) {
            (None, _) => self.found.added.insert(&self.path),
            (_, None) => self.found.removed.insert(&self.path),
            (Some(left), Some(right)) if same(left, right) => {}
            (Some(_), Some(_)) => self.found.modified.insert(&self.path),
        }
    }

    fn maps(&mut self, pair: Pair<'_>, shape: &MapShape<'_>) -> bool {
        let empty = Map::new();
        if shape.atomic {
            self.leaf(pair);
            return true;
        }
        let (left, right) = (
            pair.0.and_then(Value::as_object).unwrap_or(&empty),
            pair.1.and_then(Value::as_object).unwrap_or(&empty),
        );
        if left.is_empty() && right.is_empty() {
            self.leaf(pair);
            return true;
        }
        let only_left = left.keys().filter(|key| !right.contains_key(*key));
        for key in only_left.chain(right.keys()) {
            self.path.push(PathElement::field(key));
            let of = shape.field(key).unwrap_or(Type::Deduced);
            self.visit(left.get(key), right.get(key), of);
            self.path.pop();
        }
        false
    }

    fn lists(&mut self, pair: Pair<'_>, shape: &ListShape<'_>) -> bool {
        let (left, right) = (items_of(pair.0), items_of(pair.1));
        if matches!(shape.relation, Relation::Atomic) || (left.is_empty() && right.is_empty()) {
            self.leaf(pair);
            return true;
        }
        let (left, right) = (grouped(left, shape), grouped(right, shape));
        let steps: BTreeSet<&PathElement> = left.keys().chain(right.keys()).collect();
        for step in steps {
            self.path.push(step.clone());
            let none = Vec::new();
            let (left, right) = (left.get(step).unwrap_or(&none), right.get(step).unwrap_or(&none));
            self.items(left, right, shape.item);
            self.path.pop();
        }
        false
    }

    /// Items of one key; several of them are taken as one value.
    fn items(&mut self, left: &[&Value], right: &[&Value], of: Type<'_>) {
        match (left, right) {
            ([] | [_], [] | [_]) => self.visit(left.first().copied(), right.first().copied(), of),
            ([_, _, ..], [_, _, ..]) => {
                let equal = left.len() == right.len()
                    && left.iter().zip(right).all(|(left, right)| same(left, right));
                if !equal {
                    self.found.modified.insert(&self.path);
                }
            }
            ([_, _, ..], _) => {
                if let [one] = right {
                    self.visit(None, Some(one), of);
                }
                self.found.removed.insert(&self.path);
            }
            (_, [_, _, ..]) => {
                if let [one] = left {
                    self.visit(Some(one), None, of);
                }
                self.found.added.insert(&self.path);
            }
        }
    }
}

/// Adds the named fields on the way to each member: owning `a.b` is then owning `a` too, unless `a` is a free key.
pub(super) fn with_named_fields(set: &FieldSet, of: Option<Type<'_>>) -> FieldSet {
    let atom = of.map(Type::atom);
    let mut result = FieldSet {
        members: set.members.clone(),
        children: BTreeMap::new(),
    };
    for (step, below) in &set.children {
        let (map, list) = (atom.and_then(|atom| atom.map), atom.and_then(|atom| atom.list));
        let next = match step {
            PathElement::Field(name) => {
                if map.is_some_and(|shape| shape.declares(name)) {
                    result.members.insert(step.clone());
                }
                map.and_then(|shape| shape.field(name))
            }
            PathElement::Key(_) => list.map(|shape| shape.item),
            PathElement::Value(_) | PathElement::Index(_) => None,
        };
        result
            .children
            .insert(step.clone(), with_named_fields(below, next));
    }
    result
}

/// Turns fields below what has become one value into that one value.
pub(super) fn reconcile(set: &mut FieldSet, of: Type<'_>) {
    let atom = of.atom();
    let mut wholes = Vec::new();
    for (step, below) in &mut set.children {
        let next = match step {
            PathElement::Field(name) => atom.map.and_then(|shape| shape.field(name)),
            PathElement::Key(_) | PathElement::Value(_) => atom.list.map(|shape| shape.item),
            PathElement::Index(_) => None,
        };
        let Some(next) = next else { continue };
        let inner = next.atom();
        let known = matches!(next, Type::Of { .. });
        let whole = match (inner.map, inner.scalar, inner.list) {
            (Some(map), None, None) => map.atomic,
            (None, None, Some(list)) => matches!(list.relation, Relation::Atomic),
            (_, _, _) => false,
        };
        if known && whole {
            wholes.push(step.clone());
        } else {
            reconcile(below, next);
        }
    }
    for step in wholes {
        set.children.remove(&step);
        set.members.insert(step);
    }
}

//! Sets of field paths (`FieldsV1`).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::path::PathElement;

/// A set of paths. A path that is a member may have longer paths below it that are members too.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSet {
    pub(super) members: BTreeSet<PathElement>,
    /// Never empty ones.
    pub(super) children: BTreeMap<PathElement, FieldSet>,
}

impl FieldSet {
    /// The set of these dotted paths of fields, such as `metadata.labels`.
    pub fn of(paths: &[&str]) -> Self {
        let mut set = Self::default();
        for path in paths {
            let path: Vec<PathElement> = path.split('.').map(PathElement::field).collect();
            set.insert(&path);
        }
        set
    }

    /// Adds a path; the empty path is no member of anything.
    pub fn insert(&mut self, path: &[PathElement]) {
        match path {
            [] => {}
            [last] => {
                self.members.insert(last.clone());
            }
            [first, rest @ ..] => match self.children.get_mut(first) {
                Some(below) => below.insert(rest),
                None => self.children.entry(first.clone()).or_default().insert(rest),
            },
        }
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty() && self.children.is_empty()
    }

    /// Whether a path is a member.
    pub fn contains(&self, path: &[PathElement]) -> bool {
        match path {
            [] => false,
            [last] => self.members.contains(last),
            [first, rest @ ..] => self.children.get(first).is_some_and(|set| set.contains(rest)),
        }
    }

    /// What lies below a first step.
    pub fn below(&self, step: &PathElement) -> Option<&Self> {
        self.children.get(step)
    }

    /// Members of either.
    #[must_use]
    pub fn union(mut self, other: &Self) -> Self {
        if self.is_empty() {
            return other.clone();
        }
        self.members.extend(other.members.iter().cloned());
        for (step, set) in &other.children {
            let mine = self.children.remove(step).unwrap_or_default();
            self.children.insert(step.clone(), mine.union(set));
        }
        self
    }

    /// Members of both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let mut result = Self {
            members: self.members.intersection(&other.members).cloned().collect(),
            children: BTreeMap::new(),
        };
        for (step, set) in &self.children {
            if let Some(theirs) = other.children.get(step) {
                result.keep(step, set.intersection(theirs));
            }
        }
        result
    }

    /// Members that the other does not have.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let mut result = Self {
            members: self.members.difference(&other.members).cloned().collect(),
            children: BTreeMap::new(),
        };
        for (step, set) in &self.children {
            match other.children.get(step) {
                Some(theirs) => result.keep(step, set.difference(theirs)),
                None => result.keep(step, set.clone()),
            }
        }
        result
    }

    /// Takes out the members of another set.
    pub fn subtract(&mut self, other: &Self) {
        for member in &other.members {
            self.members.remove(member);
        }
        for (step, theirs) in &other.children {
            if let Some(mine) = self.children.get_mut(step) {
                mine.subtract(theirs);
                if mine.is_empty() {
                    self.children.remove(step);
                }
            }
        }
    }

    /// Members that the other does not have and that do not lie below one of the other's members.
    #[must_use]
    pub fn recursive_difference(&self, other: &Self) -> Self {
        let mut result = Self {
            members: self.members.difference(&other.members).cloned().collect(),
            children: BTreeMap::new(),
        };
        for (step, set) in &self.children {
            if other.members.contains(step) {
                continue;
            }
            match other.children.get(step) {
                Some(theirs) => result.keep(step, set.recursive_difference(theirs)),
                None => result.keep(step, set.clone()),
            }
        }
        result
    }

    fn keep(&mut self, step: &PathElement, set: Self) {
        if !set.is_empty() {
            self.children.insert(step.clone(), set);
        }
    }

    /// Every member, at each level first the members that end there.
    pub fn paths(&self) -> Vec<Vec<PathElement>> {
        let mut paths = Vec::new();
        self.collect(&mut Vec::new(), &mut paths);
        paths
    }

    fn collect(&self, prefix: &mut Vec<PathElement>, paths: &mut Vec<Vec<PathElement>>) {
        for member in &self.members {
            let mut path = prefix.clone();
            path.push(member.clone());
            paths.push(path);
        }
        for (step, set) in &self.children {
            prefix.push(step.clone());
            set.collect(prefix, paths);
            prefix.pop();
        }
    }

    /// Reads `fieldsV1`.
    ///
    /// # Errors
    /// What is wrong with a step.
    pub fn from_value(value: &Value) -> Result<Self, String> {
        let mut set = Self::default();
        let Some(map) = value.as_object() else {
            return if value.is_null() {
                Ok(set)
            } else {
                Err("fieldsV1 must be an object".to_owned())
            };
        };
        for (key, below) in map {
            if key == "." {
                continue;
            }
            let Some(step) = PathElement::parse(key)? else {
                continue;
            };
            let inner = Self::from_value(below)?;
            if inner.is_empty() || below.get(".").is_some() {
                set.members.insert(step.clone());
            }
            set.keep(&step, inner);
        }
        Ok(set)
    }

    /// `fieldsV1`.
    pub fn to_value(&self) -> Value {
        self.value_with(false)
    }

    fn value_with(&self, is_member: bool) -> Value {
        let mut map = Map::new();
        if is_member && !self.is_empty() {
            map.insert(".".to_owned(), Value::Object(Map::new()));
        }
        for member in &self.members {
            if !self.children.contains_key(member) {
                map.insert(member.serialize(), Value::Object(Map::new()));
            }
        }
        for (step, set) in &self.children {
            map.insert(step.serialize(), set.value_with(self.members.contains(step)));
        }
        Value::Object(map)
    }

    /// `fieldsV1` as text, byte for byte as Kubernetes writes it (numbers in keys are ordered as numbers, which a
    /// sorted map cannot do).
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        self.write(false, &mut out);
        out
    }

    fn write(&self, is_member: bool, out: &mut String) {
        out.push('{');
        let mut first = true;
        let mut key = |out: &mut String, text: &str| {
            if !std::mem::take(&mut first) {
                out.push(',');
            }
            out.push_str(&Value::from(text).to_string());
            out.push(':');
        };
        if is_member && !self.is_empty() {
            key(out, ".");
            out.push_str("{}");
        }
        let steps: BTreeSet<&PathElement> = self.members.iter().chain(self.children.keys()).collect();
        for step in steps {
            key(out, &step.serialize());
            match self.children.get(step) {
                Some(set) => set.write(self.members.contains(step), out),
                None => out.push_str("{}"),
            }
        }
        out.push('}');
    }
}

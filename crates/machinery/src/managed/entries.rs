//! `metadata.managedFields`: who manages which fields, since when.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::set::FieldSet;
use super::shape::Type;
use super::walk;
use crate::{field, meta};

/// How many managers by update are kept apart; the oldest beyond are put together.
const MAX_UPDATERS: usize = 10;
const ANCIENT: &str = "ancient-changes";

/// How a manager came to its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    Apply,
    Update,
}

/// Who manages: for an applier the version does not count. Messages list managers in this order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Manager {
    pub(super) name: String,
    pub(super) operation: Operation,
    /// Empty for an applier.
    version: String,
    /// Decides the order: subresources come first.
    is_main: bool,
    subresource: String,
}

impl Manager {
    pub(super) fn new(name: &str, operation: Operation, api_version: &str, subresource: &str) -> Self {
        Self {
            name: if name.is_empty() { "unknown" } else { name }.to_owned(),
            operation,
            version: match operation {
                Operation::Apply => String::new(),
                Operation::Update => api_version.to_owned(),
            },
            is_main: subresource.is_empty(),
            subresource: subresource.to_owned(),
        }
    }

    /// As conflicts name it.
    pub(super) fn describe(&self) -> String {
        let mut text = field::quote(&self.name);
        if !self.subresource.is_empty() {
            text.push_str(&format!(" with subresource {}", field::quote(&self.subresource)));
        }
        match self.operation {
            Operation::Apply => text,
            Operation::Update => format!("{text} using {}", self.version),
        }
    }
}

/// What a manager manages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Managed {
    pub(super) set: FieldSet,
    pub(super) api_version: String,
    pub(super) time: Option<Timestamp>,
}

pub(super) type Managers = BTreeMap<Manager, Managed>;

/// Reads `metadata.managedFields` as somebody sent them; `None` if any of them make no sense.
pub(super) fn decode(object: &Value) -> Option<Managers> {
    entries(object).map(decode_one).collect()
}

/// Reads `metadata.managedFields` as they are stored. What makes no sense there is passed over: nobody could write the
/// object again for its sake.
pub(super) fn read(object: &Value) -> Managers {
    entries(object).filter_map(decode_one).collect()
}

fn entries(object: &Value) -> impl Iterator<Item = &Value> {
    object
        .get("metadata")
        .and_then(|metadata| metadata.get("managedFields"))
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

fn decode_one(entry: &Value) -> Option<(Manager, Managed)> {
    let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
    let operation = match text("operation") {
        "Apply" => Operation::Apply,
        "Update" => Operation::Update,
        _ => return None,
    };
    let api_version = text("apiVersion");
    if api_version.is_empty() || text("fieldsType") != "FieldsV1" {
        return None;
    }
    let mut manager = Manager::new(text("manager"), operation, api_version, text("subresource"));
    text("manager").clone_into(&mut manager.name);
    let managed = Managed {
        set: FieldSet::from_value(entry.get("fieldsV1").unwrap_or(&Value::Null)).ok()?,
        api_version: api_version.to_owned(),
        time: text("time").parse().ok(),
    };
    Some((manager, managed))
}

/// Writes `metadata.managedFields`, in Kubernetes' order: appliers first, then by age, then by name.
pub(super) fn encode<'a>(object: &mut Value, managers: &'a Managers) {
    let mut entries: Vec<(&'a Manager, &'a Managed)> = managers.iter().collect();
    let rank = |(manager, managed): &(&Manager, &Managed)| {
        let age = managed.time.map_or(0, Timestamp::as_second);
        (manager.operation, age)
    };
    let texts = |(manager, managed): &(&'a Manager, &'a Managed)| {
        (&manager.name, &managed.api_version, &manager.subresource)
    };
    entries.sort_by(|one, other| {
        let by_age = rank(one).cmp(&rank(other));
        by_age.then_with(|| texts(one).cmp(&texts(other)))
    });
    let entries: Vec<Value> = entries
        .into_iter()
        .map(|(manager, managed)| {
            let mut entry = Map::new();
            entry.insert("manager".to_owned(), json!(manager.name));
            let operation = match manager.operation {
                Operation::Apply => "Apply",
                Operation::Update => "Update",
            };
            entry.insert("operation".to_owned(), json!(operation));
            entry.insert("apiVersion".to_owned(), json!(managed.api_version));
            if let Some(time) = managed.time {
                entry.insert("time".to_owned(), json!(seconds(time)));
            }
            entry.insert("fieldsType".to_owned(), json!("FieldsV1"));
            entry.insert("fieldsV1".to_owned(), managed.set.to_value());
            if !manager.subresource.is_empty() {
                entry.insert("subresource".to_owned(), json!(manager.subresource));
            }
            Value::Object(entry)
        })
        .collect();
    if entries.is_empty() {
        strip(object);
    } else {
        meta::ensure_metadata(object).insert("managedFields".to_owned(), Value::Array(entries));
    }
}

/// RFC 3339 without fractions.
fn seconds(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second())
        .unwrap_or(time)
        .to_string()
}

/// Takes `metadata.managedFields` away.
pub(super) fn strip(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

/// Whether a request asks to forget all managers: an empty list, or one empty entry.
pub(super) fn is_reset(object: &Value) -> bool {
    let list = object
        .get("metadata")
        .and_then(|metadata| metadata.get("managedFields"))
        .and_then(Value::as_array);
    match list.map(Vec::as_slice) {
        Some([]) => true,
        Some([one]) => one.as_object().is_some_and(Map::is_empty),
        Some(_) | None => false,
    }
}

/// Fits every set to a schema that may have changed.
pub(super) fn reconcile(managers: &mut Managers, of: Type<'_>) {
    for managed in managers.values_mut() {
        walk::reconcile(&mut managed.set, of);
    }
}

/// Puts the oldest updaters of each version together until few enough are left.
pub(super) fn cap(managers: &mut Managers) {
    if managers.len() <= MAX_UPDATERS {
        return;
    }
    let mut updaters: Vec<Manager> = managers
        .keys()
        .filter(|manager| manager.operation == Operation::Update)
        .cloned()
        .collect();
    updaters.sort_by_key(|manager| {
        let time = managers.get(manager).and_then(|managed| managed.time);
        (time.map_or(0, Timestamp::as_second), manager.clone())
    });
    let mut left = updaters.len();
    let mut first_of: BTreeMap<String, Manager> = BTreeMap::new();
    for manager in updaters {
        if left <= MAX_UPDATERS {
            return;
        }
        let Some(version) = managers.get(&manager).map(|managed| managed.api_version.clone()) else {
            continue;
        };
        let Some(first) = first_of.get(&version) else {
            first_of.insert(version, manager);
            continue;
        };
        let bucket = Manager::new(ANCIENT, Operation::Update, &version, "");
        if !managers.contains_key(&bucket)
            && let Some(managed) = managers.remove(first)
        {
            managers.insert(bucket.clone(), managed);
        }
        if let Some(managed) = managers.remove(&manager) {
            let older = managers
                .remove(&bucket)
                .map(|older| older.set)
                .unwrap_or_default();
            managers.insert(
                bucket,
                Managed {
                    set: managed.set.union(&older),
                    ..managed
                },
            );
        }
        left -= 1;
    }
}

//! The fuzz body of what clients send as objects: from the body's tree to what is stored of it, and back as a row.

use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use machinery::{ApiError, Gvk};
use serde_json::{Value, json};

use super::{Part, create, metadata, update};
use crate::fuzz::edit;
use crate::object;
use crate::registry::{Registry, Served, Snapshot};
use crate::table::{IncludeObject, table, templates};

/// An object in lines (see [`edit`]) and, below a line `---`, edits of it: the kind that it names, and one kind in
/// turn, judge it as a create, and its edits as an update of each of its parts.
///
/// # Panics
/// If a kind's rules change what they accepted when it is sent again, or refuse it; if a row has other cells than its
/// table has columns, or an accepted object's has cells that hold more than one value.
pub fn fuzz_object(bytes: &[u8]) {
    static SNAPSHOT: OnceLock<Arc<Snapshot>> = OnceLock::new();
    let snapshot = SNAPSHOT.get_or_init(|| Registry::new().snapshot());
    let text = String::from_utf8_lossy(bytes);
    let (first, edits) = text.split_once("\n---\n").unwrap_or((&text, ""));
    let mut object = json!({});
    edit(&mut object, first);
    let said = |field: &str| object[field].as_str().unwrap_or_default();
    let named = snapshot.of_kind(&Gvk::new(said("apiVersion"), said("kind")));
    let turn = bytes.iter().map(|byte| usize::from(*byte)).sum::<usize>() % snapshot.all().len();
    let mut other = object.clone();
    if let Some(map) = other.as_object_mut() {
        map.remove("apiVersion");
        map.remove("kind");
    }
    if let Some(served) = named {
        judge(served, object, edits);
    }
    judge(&snapshot.all()[turn], other, edits);
}

fn judge(served: &Served, object: Value, edits: &str) {
    show(served, &object);
    let Ok(stored) = created(served, object) else {
        return;
    };
    same_again(served, &stored);
    for cell in show(served, &stored).as_array().into_iter().flatten() {
        assert!(!cell.is_object() && !cell.is_array(), "{cell} of {stored}");
    }
    for (subresource, part) in [
        ("", Part::Main),
        ("status", Part::Status),
        ("finalize", Part::Finalize),
        ("approval", Part::Approval),
        ("ephemeralcontainers", Part::EphemeralContainers),
        ("resize", Part::Resize),
    ] {
        if part != Part::Main && served.subresource(subresource).is_none() {
            continue;
        }
        let mut new = stored.clone();
        edit(&mut new, edits);
        if let (Ok(new), Part::Main) = (updated(served, part, new, &stored), part) {
            same_again(served, &read_back(served, &new));
        }
    }
}

/// The cells of an object's row.
fn show(served: &Served, object: &Value) -> Value {
    let now = Timestamp::UNIX_EPOCH;
    let include = IncludeObject::Metadata;
    let tables = [
        table(served, [object.clone()], json!({}), include, now, true),
        templates(served, [object.clone()], json!({}), include, now),
    ];
    for table in &tables {
        let columns = table["columnDefinitions"].as_array().map(Vec::len);
        assert_eq!(table["rows"][0]["cells"].as_array().map(Vec::len), columns);
    }
    let [mut table, _] = tables;
    table["rows"][0]["cells"].take()
}

/// An update with what is stored is accepted and changes nothing.
fn same_again(served: &Served, stored: &Value) {
    let again = updated(served, Part::Main, stored.clone(), stored);
    let again = again.unwrap_or_else(|error| panic!("{}: {stored}", error.message));
    assert_eq!(again, *stored);
}

fn created(served: &Served, mut object: Value) -> Result<Value, ApiError> {
    admit(served, &mut object, None)?;
    update::fill(served, &mut object)?;
    let now = "2026-01-01T00:00:00Z".to_owned();
    create::prepare(served, now, "0-1-2-3".to_owned(), &mut object);
    create::validate(served, &object)?;
    Ok(read_back(served, &object))
}

fn updated(served: &Served, part: Part, mut new: Value, old: &Value) -> Result<Value, ApiError> {
    let name = old["metadata"]["name"].as_str().unwrap_or_default();
    admit(served, &mut new, Some(name))?;
    update::fill(served, &mut new)?;
    update::keep_managers(&mut new, old);
    let problems = update::prepare(served, part, &mut new, old);
    update::validate(served, part, &new, old, problems)?;
    Ok(new)
}

/// In the namespace that the object names, as kubectl asks.
fn admit(served: &Served, object: &mut Value, name: Option<&str>) -> Result<(), ApiError> {
    let namespace = object["metadata"]["namespace"]
        .as_str()
        .filter(|_| served.namespaced);
    let namespace = namespace.unwrap_or_default().to_owned();
    metadata::admit(served, &namespace, object, name)
}

/// What clients see of an object that is stored.
fn read_back(served: &Served, object: &Value) -> Value {
    let draft = object::draft(served, &update::to_storage(served, object));
    object::parse(served, &draft.json).expect("what is stored can be read")
}

//! Deleting objects, at once or once nothing holds them any longer.

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode, header};
use machinery::{ApiError, Reason};
use serde_json::{Value, json};
use source::{Change, Error, Expect, Object, Write};

use super::list::{self, Read};
use super::{Call, metadata, present};
use crate::body::Body;
use crate::decode::{self, BodyFormat};
use crate::options::{DeleteOptions, ListOptions, Propagation};
use crate::selection::Selection;
use crate::strategy::Generation;
use crate::{error, object};

const ATTEMPTS: u32 = 16;
/// Keeps an object until its dependents are gone.
const FOREGROUND: &str = "foregroundDeletion";
/// Keeps an object until its dependents have forgotten it.
const ORPHAN: &str = "orphan";

/// Namespaces that are always there.
const IMMORTAL: [&str; 3] = ["default", "kube-public", "kube-system"];

/// What a request to delete asks for: its body, or without one its query.
fn options(call: &Call<'_>, body: &Bytes) -> Result<DeleteOptions, ApiError> {
    if body.is_empty() {
        return DeleteOptions::of_query(call.query);
    }
    let format = BodyFormat::from_content_type(call.header(header::CONTENT_TYPE))?;
    DeleteOptions::of_body(&decode::decode(format, body)?.0)
}

/// What became of an object.
pub(super) enum Deleted {
    /// It is gone (or would be); this was its last version.
    Gone(Arc<Object>),
    /// It will go once nothing holds it.
    Going(Arc<Object>),
    /// It would (dry run).
    WouldGo(Value),
}

/// Answers a delete.
pub(super) async fn delete(call: &mut Call<'_>, body: Bytes) -> Result<Response<Body>, ApiError> {
    let options = options(call, &body)?;
    let name = call.info.name.clone();
    match remove(call, &name, &options).await? {
        Deleted::Gone(object) if call.served.strategy.returns_deleted => {
            present::stored(call, StatusCode::OK, &object)
        }
        Deleted::Gone(object) => present::deleted(call, &name, object.head.uid()),
        Deleted::Going(object) => present::stored(call, StatusCode::OK, &object),
        Deleted::WouldGo(object) => present::tree(call, StatusCode::OK, object),
    }
}

/// Answers a collective delete: with the list of what was there.
pub(super) async fn collection(call: &mut Call<'_>, body: Bytes) -> Result<Response<Body>, ApiError> {
    let wanted = ListOptions::of_query(false, call.query)?;
    let selection = Selection::new(&call.served, &wanted)?;
    let options = options(call, &body)?;
    let (page, meta) = match list::page(call, &wanted, &selection).await? {
        Read::Page(page, meta) => (page, meta),
        Read::Expired(answer) => return Ok(answer),
    };
    for object in &page.objects {
        match remove(call, &object.key.name, &options).await {
            Ok(_) => {}
            Err(error) if error.code == 404 => {}
            Err(error) => return Err(error),
        }
    }
    present::list(call, &page.objects, &meta)
}

pub(super) async fn remove(
    call: &Call<'_>,
    name: &str,
    options: &DeleteOptions,
) -> Result<Deleted, ApiError> {
    let served = &call.served;
    if served.group.is_empty() && served.plural == "namespaces" && IMMORTAL.contains(&name) {
        let why = format!("namespaces \"{name}\" is forbidden: this namespace may not be deleted");
        return Err(ApiError::new(Reason::Forbidden, why).about("", "namespaces", name));
    }
    let key = call.key_of(name);
    for attempt in 1.. {
        let stored = call
            .server
            .config
            .source
            .get(&key)
            .await
            .map_err(error::of_source)?
            .ok_or_else(|| call.not_found(name))?;
        check_preconditions(call, name, &stored, options)?;
        let mut marked = None;
        if may_be_held(&stored, options) {
            let object = object::parse(served, &stored.json)?;
            let held = mark(call, &object, options);
            if metadata::is_held(served, &held) {
                if options.dry_run {
                    return Ok(Deleted::WouldGo(held));
                }
                if held == object {
                    return Ok(Deleted::Going(stored));
                }
                marked = Some(held);
            }
        }
        if options.dry_run {
            return Ok(Deleted::Gone(stored));
        }
        let holds = marked.is_some();
        let change = match marked {
            Some(marked) => Change::Put(object::draft(served, &super::update::to_storage(served, &marked))),
            None => Change::Delete,
        };
        let write = Write {
            key: key.clone(),
            expect: Expect::Revision(stored.revision),
            change,
        };
        match call.server.write(write).await {
            Ok(object) if holds => return Ok(Deleted::Going(object)),
            Ok(object) => return Ok(Deleted::Gone(object)),
            Err(Error::Conflict { .. }) if attempt < ATTEMPTS => {}
            Err(error) => return Err(error::of_object(served, name, error)),
        }
    }
    Err(ApiError::internal("the object changes too fast"))
}

/// Whether an object must be read to know if something holds it: most name no finalizers at all.
fn may_be_held(stored: &Object, options: &DeleteOptions) -> bool {
    let adds_one = match options.propagation {
        Some(Propagation::Foreground | Propagation::Orphan) => true,
        Some(Propagation::Background) | None => false,
    };
    adds_one || memchr::memmem::find(&stored.json, b"\"finalizers\":").is_some()
}

/// 409 if an object is not the one that options mean.
pub(super) fn check_preconditions(
    call: &Call<'_>,
    name: &str,
    stored: &Object,
    options: &DeleteOptions,
) -> Result<(), ApiError> {
    let conflict = |why: String| {
        Err(ApiError::conflict(
            &call.served.group,
            &call.served.kind,
            name,
            &why,
        ))
    };
    if let Some(uid) = &options.uid
        && *uid != stored.head.uid()
    {
        return conflict(format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been \
             deleted and then recreated",
            stored.head.uid()
        ));
    }
    if let Some(revision) = &options.revision
        && *revision != stored.revision.to_string()
    {
        return conflict(format!(
            "the ResourceVersion in the precondition ({revision}) does not match the ResourceVersion in record ({}). \
             The object might have been modified",
            stored.revision
        ));
    }
    Ok(())
}

/// The object as it looks once it is being deleted.
fn mark(call: &Call<'_>, object: &Value, options: &DeleteOptions) -> Value {
    let mut marked = object.clone();
    let finalizers: Vec<String> = object["metadata"]["finalizers"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|finalizer| finalizer.as_str().map(str::to_owned))
        .collect();
    let mut wanted: Vec<String> = match options.propagation {
        None => finalizers.clone(),
        Some(_) => finalizers
            .iter()
            .filter(|finalizer| *finalizer != FOREGROUND && *finalizer != ORPHAN)
            .cloned()
            .collect(),
    };
    match options.propagation {
        Some(Propagation::Foreground) => wanted.push(FOREGROUND.to_owned()),
        Some(Propagation::Orphan) => wanted.push(ORPHAN.to_owned()),
        Some(Propagation::Background) | None => {}
    }
    let Some(metadata) = marked["metadata"].as_object_mut() else {
        return marked;
    };
    if wanted != finalizers {
        metadata.insert("finalizers".to_owned(), json!(wanted));
    }
    if !metadata.contains_key("deletionTimestamp") {
        metadata.insert("deletionTimestamp".to_owned(), Value::from(call.now()));
        if call.served.storage.as_str() != "namespaces" {
            metadata.insert("deletionGracePeriodSeconds".to_owned(), json!(0));
        }
        if call.served.strategy.generation != Generation::None
            && let Some(generation) = metadata.get("generation").and_then(Value::as_i64)
        {
            metadata.insert("generation".to_owned(), json!(generation + 1));
        }
        if call.served.group.is_empty() && call.served.plural == "namespaces" {
            marked["status"]["phase"] = Value::from("Terminating");
        }
    }
    marked
}

//! What the scheduler keeps of the objects that it watches: what decisions read, and nothing else.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use api::{apps, change_set, settle};
use kubeio::ObjectKey;
use machinery::meta;
use placement::{InvalidSubscription, Names, Subscription};
use serde_json::{Value, json};

use crate::conditions;

/// A Subscription, of its status only the last binding and the scheduler's own conditions: what others write there makes
/// no difference then.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) uid: String,
    generation: i64,
    /// Its resource version, while nobody has written any status.
    pub(crate) bare: Option<String>,
    pub(crate) deleting: bool,
    /// Who is to schedule it, and by which profile.
    pub(crate) scheduler_name: String,
    /// Whether a change set that is not complete keeps it as it is.
    pub(crate) is_frozen: bool,
    /// For how long it asks that edits are waited for.
    pub(crate) settle: Option<Duration>,
    /// The conditions that the scheduler owns.
    pub(crate) conditions: Vec<Value>,
    pub(crate) read: Result<Subscription, InvalidSubscription>,
}

impl Kept {
    /// From a Subscription object.
    pub(crate) fn from_value(object: &Value, names: &Mutex<Names>) -> Self {
        Self {
            uid: meta::uid(object).to_owned(),
            generation: object["metadata"]["generation"].as_i64().unwrap_or(0),
            bare: object["status"]
                .is_null()
                .then(|| meta::resource_version(object).to_owned()),
            deleting: meta::is_deleting(object),
            scheduler_name: object["spec"]["schedulerName"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
            is_frozen: change_set::is_frozen(object),
            settle: settle::asked(object),
            conditions: conditions::own(object),
            read: Subscription::read(object, &mut names.lock().unwrap_or_else(PoisonError::into_inner)),
        }
    }

    /// Whether its spec is that of a former state.
    pub(crate) fn has_spec_of(&self, other: &Self) -> bool {
        let same = match (&self.read, &other.read) {
            (Ok(new), Ok(old)) => new.has_spec_of(old),
            (Err(new), Err(old)) => new == old,
            (Ok(_), Err(_)) | (Err(_), Ok(_)) => false,
        };
        same && self.generation == other.generation && self.uid == other.uid
    }

    /// What an event is about.
    pub(crate) fn reference(&self, key: &ObjectKey) -> Value {
        let ObjectKey { namespace, name } = key;
        json!({"apiVersion": apps::SUBSCRIPTIONS.api_version(), "kind": apps::SUBSCRIPTIONS.kind,
            "metadata": {"namespace": namespace, "name": name, "uid": self.uid}})
    }
}

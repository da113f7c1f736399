//! Versions: what a Subscription distributes at one time, and how older ones are kept.
//!
//! A version is the Subscription's feeds in their order, their templates, and the Globalizations that change them. Its
//! name is the hash of that, so that equal content is the same version whoever makes it, and whenever. What is no part of
//! it acts at once: where the objects go, in how many replicas, and Localizations.
//!
//! Versions are kept as Secrets, as Helm keeps its releases: what is distributed may be secret itself. Each piece is one,
//! immutable, named after its content and its Subscription; two versions share the pieces that are equal.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::sync::Arc;

use api::{annotations, apps, kubernetes, labels, rollouts, secret};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use machinery::meta;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::feed::{self, Feed};
use crate::labels as names;
use crate::overrides;

/// The most bytes that a piece may have, compressed. A Secret may have a little more.
pub const PIECE_LIMIT: usize = 1_000_000;
/// The most bytes that a piece is unpacked to: what is larger was not made here.
const UNPACKED_LIMIT: u64 = 64 << 20;
/// The prefix of the Secrets' names.
const PREFIX: &str = "revision-";
/// The key of the Secrets' data.
const KEY: &str = "revision";
/// How many hex digits name a version or a piece: 128 bits.
const DIGITS: usize = 32;

/// What a Subscription distributes at one time.
#[derive(Debug, Clone, PartialEq)]
pub struct Version {
    /// Its name.
    name: String,
    index: Index,
    templates: Vec<Arc<Value>>,
    globalizations: Vec<Arc<Value>>,
}

/// What a version consists of, by name.
#[derive(Debug, Clone, PartialEq)]
pub struct Index {
    /// The feeds, in their order.
    pub feeds: Vec<Feed>,
    /// The pieces that are their templates, in the same order.
    templates: Vec<String>,
    /// The pieces that are Globalizations, in the order in which they are applied.
    globalizations: Vec<String>,
}

/// Why a version cannot be kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{what} has {size} bytes when compressed, more than a Secret can hold (limit {PIECE_LIMIT}); make it smaller"
)]
pub struct TooLarge {
    /// Which piece.
    what: String,
    size: usize,
}

/// Why a version that was kept cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// A Secret is not there.
    #[error("Secret {0} is not there")]
    Missing(String),
    /// A Secret is not what it was made as.
    #[error("Secret {0} does not hold what its name says")]
    Forged(String),
}

impl Version {
    /// What a Subscription distributes now.
    ///
    /// # Errors
    /// Each template that is not there.
    pub fn of(
        subscription: &Value,
        template: &dyn Fn(&Feed) -> Option<Arc<Value>>,
        globalizations: &[Arc<Value>],
    ) -> Result<Self, String> {
        let uid = meta::uid(subscription);
        let feeds = Feed::all_of(subscription);
        let (mut templates, mut problems) = (Vec::new(), Vec::new());
        for feed in &feeds {
            let found = template(feed);
            match (feed::trouble(feed, found.as_deref()), found) {
                (None, Some(found)) => templates.push(Arc::new(content_of(&found))),
                (trouble, _) => problems.extend(trouble.map(|it| it.note)),
            }
        }
        if !problems.is_empty() {
            return Err(problems.join("; "));
        }
        let mut applied: Vec<Arc<Value>> = Vec::new();
        for policy in feeds
            .iter()
            .flat_map(|feed| overrides::sorted(globalizations, feed))
        {
            let mut spec = policy["spec"].clone();
            if let Some(spec) = spec.as_object_mut() {
                spec.remove("overridePolicy");
            }
            let content = json!({
                "apiVersion": apps::GLOBALIZATIONS.api_version(), "kind": apps::GLOBALIZATIONS.kind,
                "metadata": {"name": meta::name(policy)}, "spec": spec,
            });
            // A feed may be named twice.
            if !applied.iter().any(|it| **it == content) {
                applied.push(Arc::new(content));
            }
        }
        let pieces = |all: &[Arc<Value>]| all.iter().map(|it| digest(uid, it)).collect();
        let index = Index {
            templates: pieces(&templates),
            globalizations: pieces(&applied),
            feeds,
        };
        Ok(Self {
            name: digest(uid, &index.to_value()),
            index,
            templates,
            globalizations: aged(applied),
        })
    }

    /// A version that was kept; `secret` gives a Secret by its name.
    ///
    /// # Errors
    /// A piece is not there, or is not what it was made as.
    pub fn load(
        name: &str,
        subscription: &Value,
        secret: &dyn Fn(&str) -> Option<Arc<Value>>,
    ) -> Result<Self, Unreadable> {
        let uid = meta::uid(subscription);
        let index = Index::load(name, subscription, secret)?;
        let read = |pieces: &[String]| -> Result<Vec<Arc<Value>>, Unreadable> {
            let read = |piece: &String| unpack(piece, uid, secret).map(Arc::new);
            pieces.iter().map(read).collect()
        };
        Ok(Self {
            name: name.to_owned(),
            templates: read(&index.templates)?,
            globalizations: aged(read(&index.globalizations)?),
            index,
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it consists of.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// Its feeds and their templates, in their order.
    pub fn templates(&self) -> impl Iterator<Item = (&Feed, &Value)> {
        self.index.feeds.iter().zip(self.templates.iter().map(|it| &**it))
    }

    /// The Globalizations.
    pub fn globalizations(&self) -> &[Arc<Value>] {
        &self.globalizations
    }

    /// The Secrets that keep it, in the order in which they are to be made: nothing names one that is not there.
    ///
    /// # Errors
    /// A piece that is too large for one.
    pub fn secrets(
        &self,
        namespace: &str,
        subscription: &Value,
        is_there: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<Value>, TooLarge> {
        let templates = self.templates().zip(&self.index.templates);
        let globalizations = self.globalizations.iter().zip(&self.index.globalizations);
        let index = self.index.to_value();
        let pieces = templates
            .map(|((feed, content), name)| ("template", format!("the template of {feed}"), content, name))
            .chain(globalizations.map(|(it, name)| {
                (
                    "globalization",
                    format!("Globalization {}", meta::name(it)),
                    &**it,
                    name,
                )
            }))
            .chain([("index", "the list of the feeds".to_owned(), &index, &self.name)]);
        let (mut made, mut secrets) = (BTreeSet::new(), Vec::new());
        for (piece, what, content, name) in pieces {
            if is_there(&secret_name(name)) || !made.insert(name) {
                continue;
            }
            let packed = pack(&ageless(content));
            if packed.len() > PIECE_LIMIT {
                let size = packed.len();
                return Err(TooLarge { what, size });
            }
            let (created_by, by) = names::created_by();
            let of = format!("{}/{}", meta::namespace(subscription), meta::name(subscription));
            secrets.push(json!({
                "apiVersion": kubernetes::SECRETS.api_version(), "kind": kubernetes::SECRETS.kind,
                "type": rollouts::REVISION_TYPE, "immutable": true,
                "metadata": {
                    "namespace": namespace, "name": secret_name(name),
                    "labels": {created_by: by, labels::REVISION: piece, labels::SUBSCRIPTION_UID: meta::uid(subscription)},
                    "annotations": {annotations::REVISION_OF: of},
                },
                "data": {KEY: secret::encode(packed)},
            }));
        }
        Ok(secrets)
    }
}

impl Index {
    /// What a version that was kept consists of.
    ///
    /// # Errors
    /// It is not there, or is not what it was made as.
    pub fn load(
        name: &str,
        subscription: &Value,
        secret: &dyn Fn(&str) -> Option<Arc<Value>>,
    ) -> Result<Self, Unreadable> {
        let value = unpack(name, meta::uid(subscription), secret)?;
        let pieces = |field: &str| {
            let pieces = value[field].as_array().into_iter().flatten();
            pieces.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let feeds = value["feeds"].as_array().into_iter().flatten();
        Ok(Self {
            feeds: feeds.map(Feed::from_value).collect(),
            templates: pieces("templates"),
            globalizations: pieces("globalizations"),
        })
    }

    /// The names of the Secrets that the version of this name is kept in.
    pub fn secret_names(&self, version: &str) -> impl Iterator<Item = String> {
        let pieces = self.templates.iter().chain(&self.globalizations);
        let own = secret_name(version);
        pieces.map(|it| secret_name(it)).chain([own])
    }

    fn to_value(&self) -> Value {
        let feeds: Vec<Value> = self.feeds.iter().map(Feed::to_value).collect();
        json!({"feeds": feeds, "templates": self.templates, "globalizations": self.globalizations})
    }
}

/// The name of the Secret that holds a piece.
pub fn secret_name(piece: &str) -> String {
    format!("{PREFIX}{piece}")
}

/// What of a template is distributed: of a Manifest what it wraps, of a chart all but what its use changes.
fn content_of(template: &Value) -> Value {
    if meta::kind(template) == feed::HELM_CHART {
        let mut chart = template.clone();
        overrides::strip(&mut chart);
        overrides::strip_chart(&mut chart);
        return chart;
    }
    json!({
        "apiVersion": apps::MANIFESTS.api_version(), "kind": apps::MANIFESTS.kind,
        "template": template["template"],
    })
}

/// The Globalizations of a version, with an age that keeps them in their order: their own says nothing about content.
fn aged(mut globalizations: Vec<Arc<Value>>) -> Vec<Arc<Value>> {
    for (index, it) in globalizations.iter_mut().enumerate() {
        Arc::make_mut(it)["metadata"]["creationTimestamp"] = json!(format!("{index:06}"));
    }
    globalizations
}

/// The same without that age.
fn ageless(content: &Value) -> Value {
    let mut content = content.clone();
    if meta::kind(&content) == apps::GLOBALIZATIONS.kind {
        meta::ensure_metadata(&mut content).remove("creationTimestamp");
    }
    content
}

/// The name of a piece of a Subscription's. Maps are in the order of their keys, so equal content is equal text.
fn digest(uid: &str, content: &Value) -> String {
    let mut hash = Sha256::new();
    hash.update(uid);
    hash.update([0]);
    hash.update(content.to_string());
    let mut name: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    name.truncate(DIGITS);
    name
}

fn pack(content: &Value) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let written = encoder.write_all(content.to_string().as_bytes());
    written
        .and_then(|()| encoder.finish())
        .expect("writing into memory does not fail")
}

fn unpack(piece: &str, uid: &str, get: &dyn Fn(&str) -> Option<Arc<Value>>) -> Result<Value, Unreadable> {
    let name = secret_name(piece);
    let Some(found) = get(&name) else {
        return Err(Unreadable::Missing(name));
    };
    let read = || -> Option<Value> {
        let mut text = String::new();
        let packed = secret::bytes(&found, KEY)?;
        let mut decoder = GzDecoder::new(packed.as_slice()).take(UNPACKED_LIMIT);
        decoder.read_to_string(&mut text).ok()?;
        serde_json::from_str(&text).ok()
    };
    let content = read().filter(|content| digest(uid, content) == piece);
    content.ok_or(Unreadable::Forged(name))
}

#[cfg(test)]
#[path = "version_tests.rs"]
mod tests;

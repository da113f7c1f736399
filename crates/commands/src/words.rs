//! `label` and `annotate`.

use std::io::Write;

use kubeio::Patch;
use serde_json::{Map, Value, json};

use crate::error::Failures;
use crate::resolve::Named;
use crate::{Error, Hub, Selection};

/// `KEY=VALUE` sets, `KEY-` removes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Words(Vec<(String, Option<String>)>);

/// What becomes of a value that is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// It stays, and setting another one is an error.
    Keep,
    /// It is replaced (`--overwrite`).
    Replace,
}

impl Words {
    /// Reads the words of a command line.
    ///
    /// # Errors
    /// [`Error::Usage`] for a word of another form, and for a key that is named twice.
    pub fn parse(words: &[String]) -> Result<Self, Error> {
        let mut parsed: Vec<(String, Option<String>)> = Vec::new();
        for word in words {
            let (key, value) = match (word.split_once('='), word.strip_suffix('-')) {
                (Some((key, value)), _) if !key.is_empty() => (key, Some(value.to_owned())),
                (None, Some(key)) if !key.is_empty() => (key, None),
                _ => return Err(Error::Usage(format!("{word:?} is neither KEY=VALUE nor KEY-"))),
            };
            if parsed.iter().any(|(other, _)| other == key) {
                return Err(Error::Usage(format!(
                    "{key:?} is set or removed twice: name each key once"
                )));
            }
            parsed.push((key.to_owned(), value));
        }
        if parsed.is_empty() {
            return Err(Error::Usage(
                "say what to set or remove: KEY=VALUE sets, KEY- removes".into(),
            ));
        }
        Ok(Self(parsed))
    }

    /// What has to change in an object's `field`; nothing if it is as wanted.
    fn change(&self, live: &Value, field: &str, existing: Existing) -> Result<Map<String, Value>, String> {
        let mut change = Map::new();
        for (key, value) in &self.0 {
            let before = live["metadata"][field][key].as_str();
            if before == value.as_deref() {
                continue;
            }
            if let (Some(before), Some(_), Existing::Keep) = (before, value, existing) {
                return Err(format!(
                    "{key:?} already has a value ({before}): --overwrite replaces it"
                ));
            }
            change.insert(key.clone(), json!(value));
        }
        Ok(change)
    }
}

/// Sets and removes labels of templates.
///
/// # Errors
/// [`Error`] of those that are not there or have other values that are to stay; the others are changed.
pub async fn label(
    hub: &Hub,
    selection: &Selection,
    words: &Words,
    existing: Existing,
    out: &mut (dyn Write + Send),
) -> Result<(), Error> {
    change(hub, selection, words, existing, ("labels", "labeled"), out).await
}

/// Sets and removes annotations of templates.
///
/// # Errors
/// As those of [`label`].
pub async fn annotate(
    hub: &Hub,
    selection: &Selection,
    words: &Words,
    existing: Existing,
    out: &mut (dyn Write + Send),
) -> Result<(), Error> {
    change(hub, selection, words, existing, ("annotations", "annotated"), out).await
}

async fn change(
    hub: &Hub,
    selection: &Selection,
    words: &Words,
    existing: Existing,
    (field, done): (&str, &str),
    out: &mut (dyn Write + Send),
) -> Result<(), Error> {
    let discovery = hub.discover().await?;
    let mut failures = Failures::default();
    for object in Named::find(hub, &discovery, selection, out).await? {
        let outcome = async {
            let verdict = change_one(hub, &object, words, existing, (field, done)).await?;
            Ok(writeln!(out, "{} {verdict}", object.title())?)
        };
        failures.take(outcome.await)?;
    }
    failures.end()
}

async fn change_one<'a>(
    hub: &Hub,
    object: &Named,
    words: &Words,
    existing: Existing,
    (field, done): (&str, &'a str),
) -> Result<&'a str, Error> {
    let (resource, namespace, name) = (&object.resource, object.namespace.as_deref(), &object.name);
    let failed = || format!("{} cannot be {done}", object.title());
    let live = hub.client.get(resource, namespace, name).await;
    let live = live.map_err(Error::hub(failed()))?;
    let change = words.change(&live, field, existing);
    let change = change.map_err(|problem| Error::Missing(format!("{}: {problem}", failed())))?;
    if change.is_empty() {
        return Ok("unchanged");
    }
    let patch = json!({"metadata": {field: change}});
    let patched = hub
        .client
        .patch(resource, namespace, name, None, Patch::Merge, &patch)
        .await;
    patched.map(|_| done).map_err(Error::hub(failed()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Result<Words, Error> {
        let words: Vec<String> = line.split_whitespace().map(ToOwned::to_owned).collect();
        Words::parse(&words)
    }

    #[test]
    fn reads_what_to_set_and_remove() {
        for bad in ["", "a", "=x", "-", "a=1 a=2", "a=1 a-"] {
            assert!(words(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn sets_and_removes_and_keeps_other_values_unless_told() {
        let live = json!({"metadata": {"labels": {"a": "1", "b": "2"}}});
        for (line, existing, expected) in [
            ("c=x=y b- d-", Existing::Keep, Ok(json!({"c": "x=y", "b": null}))),
            ("a=1 b=2", Existing::Keep, Ok(json!({}))),
            ("a=", Existing::Replace, Ok(json!({"a": ""}))),
            ("a=2 c=3", Existing::Replace, Ok(json!({"a": "2", "c": "3"}))),
            (
                "c=3 a=2",
                Existing::Keep,
                Err("\"a\" already has a value (1): --overwrite replaces it"),
            ),
        ] {
            let change = words(line).expect(line).change(&live, "labels", existing);
            assert_eq!(
                change.map(Value::Object),
                expected.map_err(ToOwned::to_owned),
                "{line:?} {existing:?}"
            );
        }
        let bare = words("a=1 b-")
            .expect("fine")
            .change(&json!({}), "labels", Existing::Keep);
        assert_eq!(bare.map(Value::Object), Ok(json!({"a": "1"})));
    }
}

//! `label` and `annotate`.

use std::io::Write;

use kubeio::Patch;
use serde_json::{Map, Value, json};

use crate::error::Failures;
use crate::resolve::Named;
use crate::{Error, Hub, Target};

/// `KEY=VALUE` sets, `KEY-` removes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Words(Vec<(String, Option<String>)>);

impl Words {
    /// Reads the words of a command line.
    ///
    /// # Errors
    /// [`Error::Usage`] for a word of another form.
    pub fn parse(words: &[String]) -> Result<Self, Error> {
        let parse = |word: &String| match (word.split_once('='), word.strip_suffix('-')) {
            (Some((key, value)), _) if !key.is_empty() => Ok((key.to_owned(), Some(value.to_owned()))),
            (None, Some(key)) if !key.is_empty() => Ok((key.to_owned(), None)),
            _ => Err(Error::Usage(format!("{word:?} is neither KEY=VALUE nor KEY-"))),
        };
        words.iter().map(parse).collect::<Result<_, _>>().map(Self)
    }

    fn patch(&self, field: &str) -> Value {
        let entries: Map<String, Value> = self
            .0
            .iter()
            .map(|(key, value)| (key.clone(), json!(value)))
            .collect();
        json!({"metadata": {field: entries}})
    }
}

/// Sets and removes labels of templates.
///
/// # Errors
/// [`Error`] of those that are not there; the others are changed.
pub async fn label(
    hub: &Hub,
    targets: &[Target],
    given: Option<&str>,
    words: &Words,
    out: &mut (dyn Write + Send),
) -> Result<(), Error> {
    change(
        hub,
        targets,
        given,
        &words.patch("labels"),
        ("label", "labeled"),
        out,
    )
    .await
}

/// Sets and removes annotations of templates.
///
/// # Errors
/// [`Error`] of those that are not there; the others are changed.
pub async fn annotate(
    hub: &Hub,
    targets: &[Target],
    given: Option<&str>,
    words: &Words,
    out: &mut (dyn Write + Send),
) -> Result<(), Error> {
    change(
        hub,
        targets,
        given,
        &words.patch("annotations"),
        ("annotate", "annotated"),
        out,
    )
    .await
}

async fn change(
    hub: &Hub,
    targets: &[Target],
    given: Option<&str>,
    patch: &Value,
    (doing, done): (&str, &str),
    out: &mut (dyn Write + Send),
) -> Result<(), Error> {
    let discovery = hub.discover().await?;
    let mut failures = Failures::default();
    for object in Named::find_all(&discovery, targets, given, doing)? {
        let title = object.title();
        let (namespace, name) = (object.namespace.as_deref(), &object.name);
        let changed = hub
            .client
            .patch(&object.resource, namespace, name, None, Patch::Merge, patch)
            .await
            .map_err(Error::hub(format!("{title} cannot be {done}")));
        let told = changed.and_then(|_| Ok(writeln!(out, "{title} {done}")?));
        failures.take(told)?;
    }
    failures.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_and_removes() {
        let words = ["a=1".to_owned(), "b-".to_owned(), "c=x=y".to_owned()];
        let words = Words::parse(&words).expect("they are fine");
        assert_eq!(
            words.patch("labels"),
            json!({"metadata": {"labels": {"a": "1", "b": null, "c": "x=y"}}})
        );
        for bad in ["", "a", "=x", "-"] {
            assert!(Words::parse(&[bad.to_owned()]).is_err(), "{bad:?}");
        }
    }
}

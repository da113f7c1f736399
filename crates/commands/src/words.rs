//! `label` and `annotate`.

use std::io::Write;

use kubeio::Patch;
use serde_json::{Map, Value, json};

use crate::resolve::{by_word, namespace as pick};
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
/// [`Error`] if one is not there.
pub async fn label(
    hub: &Hub,
    targets: &[Target],
    given: Option<&str>,
    words: &Words,
    out: &mut (dyn Write + Send),
) -> Result<(), Error> {
    change(hub, targets, given, &words.patch("labels"), "labeled", out).await
}

/// Sets and removes annotations of templates.
///
/// # Errors
/// [`Error`] if one is not there.
pub async fn annotate(
    hub: &Hub,
    targets: &[Target],
    given: Option<&str>,
    words: &Words,
    out: &mut (dyn Write + Send),
) -> Result<(), Error> {
    change(hub, targets, given, &words.patch("annotations"), "annotated", out).await
}

async fn change(
    hub: &Hub,
    targets: &[Target],
    given: Option<&str>,
    patch: &Value,
    done: &str,
    out: &mut (dyn Write + Send),
) -> Result<(), Error> {
    let discovery = hub.discover().await?;
    for target in targets {
        let resource = by_word(&discovery, &target.kind)?;
        let Some(name) = &target.name else {
            return Err(Error::Usage(format!("say which of the {}", resource.plural)));
        };
        let namespace = pick(&resource, "", given)?;
        hub.client
            .patch(&resource, namespace, name, None, Patch::Merge, patch)
            .await
            .map_err(Error::hub(format!("{}/{name} cannot be {done}", target.kind)))?;
        writeln!(out, "{}/{name} {done}", resource.kind.to_lowercase())?;
    }
    Ok(())
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

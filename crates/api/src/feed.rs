//! Feeds: which objects a Subscription refers to.
//!
//! [`Feed`] reads any value with the four fields, however incomplete; the type in the schemas is for what is written.

use std::collections::BTreeSet;
use std::fmt;

use machinery::{meta, resource};
use serde_json::{Value, json};

use crate::labels;

/// The kind of feed that is a chart; everything else is a Manifest.
pub const HELM_CHART: &str = "HelmChart";

/// A template that a Subscription refers to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Feed {
    /// `kind`.
    pub kind: String,
    /// `apiVersion`.
    pub api_version: String,
    /// `namespace`, empty if cluster-scoped.
    pub namespace: String,
    /// `name`.
    pub name: String,
}

impl Feed {
    /// From an element of `spec.feeds`, or anything else with these four fields.
    pub fn from_value(value: &Value) -> Self {
        let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
        Self {
            kind: text("kind"),
            api_version: text("apiVersion"),
            namespace: text("namespace"),
            name: text("name"),
        }
    }

    /// The feed that an object is.
    pub fn of_object(object: &Value) -> Self {
        Self {
            kind: meta::kind(object).to_owned(),
            api_version: meta::api_version(object).to_owned(),
            namespace: meta::namespace(object).to_owned(),
            name: meta::name(object).to_owned(),
        }
    }

    /// All of an object's `spec.feeds`.
    pub fn all_of(object: &Value) -> Vec<Self> {
        object["spec"]["feeds"]
            .as_array()
            .into_iter()
            .flatten()
            .map(Self::from_value)
            .collect()
    }

    /// The feed that a HelmChart or a Manifest is; `None` for a Manifest without its labels.
    pub fn of_template(object: &Value) -> Option<Self> {
        if meta::kind(object) == HELM_CHART {
            return Some(Self::of_object(object));
        }
        let label = |key: &str| meta::label(object, key).unwrap_or_default();
        let (kind, name) = (label(labels::CONFIG_KIND), label(labels::CONFIG_NAME));
        if kind.is_empty() || name.is_empty() {
            return None;
        }
        Some(Self {
            kind: kind.to_owned(),
            api_version: resource::join_api_version(
                label(labels::CONFIG_GROUP),
                label(labels::CONFIG_VERSION),
            ),
            namespace: label(labels::CONFIG_NAMESPACE).to_owned(),
            name: name.to_owned(),
        })
    }

    /// Its JSON form; an empty namespace is left out.
    pub fn to_value(&self) -> Value {
        let mut value = json!({"kind": self.kind, "apiVersion": self.api_version, "name": self.name});
        if !self.namespace.is_empty() {
            value["namespace"] = json!(self.namespace);
        }
        value
    }

    /// The key of `status.replicas`: `<apiVersion>/<Kind>/<namespace>/<name>`, without the namespace if there is none.
    pub fn key(&self) -> String {
        if self.namespace.is_empty() {
            format!("{}/{}/{}", self.api_version, self.kind, self.name)
        } else {
            format!(
                "{}/{}/{}/{}",
                self.api_version, self.kind, self.namespace, self.name
            )
        }
    }

    /// Whether it is a chart.
    pub fn is_chart(&self) -> bool {
        self.kind == HELM_CHART
    }

    /// Whether both mean the same object: the version of its API makes no difference.
    pub fn is_same(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }

    fn identity(&self) -> Identity<'_> {
        Identity {
            kind: &self.kind,
            namespace: &self.namespace,
            name: &self.name,
        }
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Identity<'a> {
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
}

impl fmt::Display for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            write!(f, "{} {}", self.kind, self.name)
        } else {
            write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
        }
    }
}

/// Which of the old feeds the new ones no longer name, in their order.
pub fn obsolete<'a>(old: &'a [Feed], new: &[Feed]) -> Vec<&'a Feed> {
    let kept: BTreeSet<Identity<'_>> = new.iter().map(Feed::identity).collect();
    old.iter()
        .filter(|feed| !kept.contains(&feed.identity()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `apiVersion Kind [namespace/]name`.
    fn feed(text: &str) -> Feed {
        let words: Vec<&str> = text.split(' ').collect();
        let (namespace, name) = words[2].split_once('/').unwrap_or(("", words[2]));
        Feed {
            api_version: words[0].into(),
            kind: words[1].into(),
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    #[test]
    fn is_written_for_people_and_as_a_key() {
        assert_eq!(feed("v1 Guess what").to_string(), "Guess what", "U10");
        assert_eq!(feed("v1 Guess demo/what").to_string(), "Guess demo/what", "U10");
        assert_eq!(
            feed("apps/v1 Deployment shop/web").key(),
            "apps/v1/Deployment/shop/web"
        );
        assert_eq!(feed("v1 Namespace shop").key(), "v1/Namespace/shop");
    }

    #[test]
    fn finds_obsolete_feeds() {
        let old = [feed("v1 Abc a/x"), feed("v1 Def a/x")];
        assert_eq!(
            obsolete(&old, &[old[1].clone(), old[0].clone()]),
            [] as [&Feed; 0],
            "U11"
        );
        assert_eq!(
            obsolete(&old, &[old[0].clone(), feed("v1 Jkl a/x")]),
            [&old[1]],
            "U11"
        );
        assert_eq!(
            obsolete(&old, &[feed("v2 Abc a/x"), feed("v9 Def a/x")]),
            [] as [&Feed; 0],
            "U12"
        );
    }
}

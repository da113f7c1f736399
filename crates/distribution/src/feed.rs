//! The templates of feeds, and what is in the way of one.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::{finalizers, reasons};
use machinery::meta;
use serde_json::Value;

pub use api::feed::{Feed, HELM_CHART, obsolete};

/// Why a feed does not go out, and keeps the others of its Base back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// One of `api::reasons`.
    pub(crate) reason: String,
    /// For people.
    pub(crate) note: String,
}

/// Whether a feed's template can go out, and if not, why.
///
/// Charts are verified by an upstream controller, where there is one; of one that nobody looked for, its agent will say
/// more.
pub(crate) fn trouble(feed: &Feed, template: Option<&Value>) -> Option<Trouble> {
    // One that is deleted while it is in use stays in force until it goes.
    let in_force =
        |it: &&Value| !meta::is_deleting(it) || meta::has_finalizer(it, finalizers::FEED_PROTECTION);
    let Some(template) = template.filter(in_force) else {
        return Some(Trouble {
            reason: reasons::nonexistent(&feed.kind),
            note: format!("{feed} in {} does not exist", feed.api_version),
        });
    };
    if !feed.is_chart() {
        return None;
    }
    let status = &template["status"];
    match status["phase"].as_str().unwrap_or_default() {
        "NotFound" => Some(Trouble {
            reason: reasons::HELM_CHART_NOT_FOUND.to_owned(),
            note: format!(
                "{feed} is not found: {}",
                status["reason"].as_str().unwrap_or_default()
            ),
        }),
        _ => None,
    }
}

/// Manifests and HelmCharts by what they are templates of. Keep it current with the events of both caches.
#[derive(Debug, Default)]
pub struct FeedIndex {
    /// Of several templates of one feed, which nobody should make, the first by namespace and name counts.
    templates: BTreeMap<Feed, Templates>,
}

/// By namespace and name.
type Templates = BTreeMap<(String, String), Arc<Value>>;

impl FeedIndex {
    /// Adds a template, or a new state of it.
    pub fn insert(&mut self, object: &Arc<Value>) {
        if let Some(feed) = Feed::of_template(object) {
            self.templates
                .entry(feed)
                .or_default()
                .insert(place(object), Arc::clone(object));
        }
    }

    /// Takes out a template, in the state it was added in.
    pub fn remove(&mut self, object: &Value) {
        let Some(feed) = Feed::of_template(object) else {
            return;
        };
        if let Some(templates) = self.templates.get_mut(&feed) {
            templates.remove(&place(object));
            if templates.is_empty() {
                self.templates.remove(&feed);
            }
        }
    }

    /// The template of a feed. The version of a chart's API makes no difference.
    pub fn get(&self, feed: &Feed) -> Option<&Arc<Value>> {
        if feed.is_chart() {
            let chart = Feed {
                api_version: api::apps::HELM_CHARTS.api_version(),
                ..feed.clone()
            };
            return self.templates.get(&chart)?.values().next();
        }
        self.templates.get(feed)?.values().next()
    }
}

fn place(object: &Value) -> (String, String) {
    (meta::namespace(object).to_owned(), meta::name(object).to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
    fn finds_templates() {
        let manifest = Arc::new(json!({
            "apiVersion": "apps.clusternet.io/v1alpha1", "kind": "Manifest",
            "metadata": {"namespace": "clusternet-reserved", "name": "deployments.shop.web", "labels": {
                "apps.clusternet.io/config.group": "apps", "apps.clusternet.io/config.version": "v1",
                "apps.clusternet.io/config.kind": "Deployment", "apps.clusternet.io/config.name": "web",
                "apps.clusternet.io/config.namespace": "shop", "uid-1": "Base",
            }},
        }));
        let chart = Arc::new(
            json!({"apiVersion": "apps.clusternet.io/v1alpha1", "kind": "HelmChart",
            "metadata": {"namespace": "shop", "name": "mysql"}}),
        );
        let mut index = FeedIndex::default();
        index.insert(&manifest);
        index.insert(&chart);
        assert_eq!(index.get(&feed("apps/v1 Deployment shop/web")), Some(&manifest));
        assert_eq!(
            index.get(&feed("apps.clusternet.io/v9 HelmChart shop/mysql")),
            Some(&chart)
        );
        assert_eq!(index.get(&feed("apps/v1 Deployment other/web")), None);
        index.remove(&manifest);
        assert_eq!(index.get(&feed("apps/v1 Deployment shop/web")), None);
    }
}

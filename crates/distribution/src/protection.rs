//! Manifests and HelmCharts in use cannot go: deletion waits, and says for whom.

use std::sync::Arc;

use api::{annotations, apps, finalizers};
use machinery::meta;
use serde_json::{Value, json};

use crate::action::{Action, Next, Plan, add_finalizer, remove_finalizers};
use crate::feed::{Feed, HELM_CHART};

/// What one plan may look at.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// A Manifest or a HelmChart.
    pub template: &'a Value,
    /// Every Subscription; those that do not name the template are passed over.
    pub subscriptions: &'a [Arc<Value>],
}

/// What to do about a template.
pub fn plan(view: &View<'_>) -> Plan {
    let template = view.template;
    let resource = if meta::kind(template) == HELM_CHART {
        apps::HELM_CHARTS
    } else {
        apps::MANIFESTS
    };
    let mut plan = Plan::default();
    if !meta::is_deleting(template) {
        if let Some(patch) = add_finalizer(template, finalizers::FEED_PROTECTION) {
            plan.push(Action::patch(&resource, template, patch));
        }
        return plan;
    }
    let mut users = users(view);
    users.sort_unstable();
    if users.is_empty() {
        let ours = [finalizers::FEED_PROTECTION, finalizers::APP];
        if let Some(patch) = remove_finalizers(template, &ours) {
            plan.push(Action::patch(&resource, template, patch));
        }
        return plan;
    }
    let why = format!(
        "block deleting current resource until all Subscriptions (including {}) referring it as a feed get deleted or \
         drop the feed",
        users.join(", ")
    );
    if meta::annotation(template, annotations::FEED_PROTECTION) != Some(&why) {
        let patch = json!({"metadata": {"annotations": {annotations::FEED_PROTECTION: why}}});
        plan.push(Action::patch(&resource, template, patch));
    }
    plan.next = Next::Blocked(why);
    plan
}

/// The Subscriptions that use the template and stay.
fn users(view: &View<'_>) -> Vec<String> {
    let Some(own) = Feed::of_template(view.template) else {
        return Vec::new();
    };
    let using = |subscription: &&Arc<Value>| {
        !meta::is_deleting(subscription) && Feed::all_of(subscription).iter().any(|feed| feed.is_same(&own))
    };
    let users = view.subscriptions.iter().filter(using);
    users
        .map(|it| format!("{}/{}", meta::namespace(it), meta::name(it)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(deleting: bool, protected: bool) -> Value {
        let mut object = json!({"kind": "Manifest", "metadata": {"namespace": "clusternet-reserved", "name": "namespaces.foo",
            "labels": {"apps.clusternet.io/config.version": "v1", "apps.clusternet.io/config.kind": "Namespace",
                       "apps.clusternet.io/config.name": "foo"}}});
        if deleting {
            object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        if protected {
            object["metadata"]["finalizers"] = json!(["apps.clusternet.io/feed-protection"]);
        }
        object
    }

    fn subscription(name: &str, feed: &str) -> Arc<Value> {
        Arc::new(
            json!({"kind": "Subscription", "metadata": {"namespace": "default", "name": name},
            "spec": {"feeds": [{"kind": "Namespace", "apiVersion": "v1", "name": feed}]}}),
        )
    }

    #[test]
    fn protects_every_template() {
        let template = manifest(false, false);
        let planned = plan(&View {
            template: &template,
            subscriptions: &[],
        });
        let Action::Patch { patch, .. } = &planned.actions[0] else {
            panic!()
        };
        assert_eq!(
            patch["metadata"]["finalizers"],
            json!(["apps.clusternet.io/feed-protection"])
        );
        let template = manifest(false, true);
        assert_eq!(
            plan(&View {
                template: &template,
                subscriptions: &[]
            }),
            Plan::default()
        );
    }

    #[test]
    fn holds_back_the_deletion_of_what_is_used() {
        let mut template = manifest(true, true);
        let subscriptions = [
            subscription("b", "foo"),
            subscription("a", "foo"),
            subscription("c", "other"),
        ];
        let planned = plan(&View {
            template: &template,
            subscriptions: &subscriptions,
        });
        let Next::Blocked(why) = &planned.next else {
            panic!()
        };
        assert!(why.contains("(including default/a, default/b)"), "{why}");
        meta::set_annotation(&mut template, annotations::FEED_PROTECTION, why);
        let again = plan(&View {
            template: &template,
            subscriptions: &subscriptions,
        });
        assert!(!again.writes(), "said once");
        let free = plan(&View {
            template: &template,
            subscriptions: &subscriptions[2..],
        });
        let Action::Patch { patch, .. } = &free.actions[0] else {
            panic!()
        };
        assert_eq!(patch["metadata"]["finalizers"], json!([]));
    }
}

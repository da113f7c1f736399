//! Manifests and HelmCharts in use: labels say by whom; deletion of one waits, and says for whom, or takes it out of its
//! Subscriptions.
//!
//! The labels are all written at once, for there is one of each Base: written one by one, they cost the square of the
//! clusters.

use std::sync::Arc;

use api::{annotations, apps, finalizers, labels};
use machinery::meta;
use serde_json::{Map, Value, json};

use crate::action::{Action, Next, Plan, add_finalizer, remove_finalizers};
use crate::feed::{Feed, HELM_CHART};
use crate::labels as names;

/// What the label of a Base's uid says.
const BASE: &str = "Base";
/// What the label of a Subscription's uid says.
const SUBSCRIPTION: &str = "Subscription";

/// What one plan may look at.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// A Manifest or a HelmChart.
    pub template: &'a Value,
    /// Every Subscription; those that do not name the template are passed over.
    pub subscriptions: &'a [Arc<Value>],
    /// Every Base; those that do not name the template are passed over.
    pub bases: &'a [Arc<Value>],
    /// What becomes of a template that is deleted while it is in use.
    pub in_use: InUse,
}

/// What becomes of a template that is deleted while it is in use (the gate `FeedInUseProtection`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InUse {
    /// It stays until nobody uses it.
    Protect,
    /// Its users lose it.
    Drop,
}

impl InUse {
    /// The finalizer that gives the time for it.
    fn finalizer(self) -> &'static str {
        match self {
            Self::Protect => finalizers::FEED_PROTECTION,
            Self::Drop => finalizers::APP,
        }
    }
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
    let labels = labels(view);
    if !labels.is_empty() {
        plan.push(Action::patch(
            &resource,
            template,
            json!({"metadata": {"labels": labels}}),
        ));
    }
    if !meta::is_deleting(template) {
        if let Some(patch) = add_finalizer(template, view.in_use.finalizer()) {
            plan.push(Action::patch(&resource, template, patch));
        }
        return plan;
    }
    let mut users = users(view);
    users.sort_unstable_by_key(|it| name(it));
    let protected =
        view.in_use == InUse::Protect && meta::has_finalizer(template, finalizers::FEED_PROTECTION);
    if !protected {
        for user in &users {
            plan.push(without(user, template));
        }
    }
    if users.is_empty() || !protected {
        let ours = [finalizers::FEED_PROTECTION, finalizers::APP];
        if let Some(patch) = remove_finalizers(template, &ours) {
            plan.push(Action::patch(&resource, template, patch));
        }
        return plan;
    }
    let why = format!(
        "block deleting current resource until all Subscriptions (including {}) referring it as a feed get deleted or \
         drop the feed",
        users.iter().map(|it| name(it)).collect::<Vec<_>>().join(", ")
    );
    if meta::annotation(template, annotations::FEED_PROTECTION) != Some(&why) {
        let patch = json!({"metadata": {"annotations": {annotations::FEED_PROTECTION: why}}});
        plan.push(Action::patch(&resource, template, patch));
    }
    plan.next = Next::Blocked(why);
    plan
}

/// The labels that are to change: the uids of the Bases that use the template and of their Subscriptions, and of those
/// that do so no longer. A Base that is deleted uses it until its cluster has given it back.
fn labels(view: &View<'_>) -> Map<String, Value> {
    let own = Feed::of_template(view.template);
    let using = view.bases.iter().filter(|base| uses(base, own.as_ref()));
    let mut wanted = Map::new();
    for base in using {
        if let Some(subscription) = meta::label(base, labels::SUBSCRIPTION_UID).filter(|uid| !uid.is_empty())
        {
            wanted.insert(subscription.to_owned(), json!(SUBSCRIPTION));
        }
        wanted.insert(meta::uid(base).to_owned(), json!(BASE));
    }
    let mut changes = names::missing(view.template, &wanted);
    for (uid, kind) in meta::labels(view.template).into_iter().flatten() {
        let is_user = *kind == BASE || *kind == SUBSCRIPTION;
        if is_user && !wanted.contains_key(uid) {
            changes.insert(uid.clone(), Value::Null);
        }
    }
    changes
}

/// Whether an object has the template among its feeds.
fn uses(object: &Value, template: Option<&Feed>) -> bool {
    template.is_some_and(|own| Feed::all_of(object).iter().any(|feed| feed.is_same(own)))
}

/// The Subscriptions that use the template and stay.
fn users<'a>(view: &View<'a>) -> Vec<&'a Arc<Value>> {
    let own = Feed::of_template(view.template);
    let using = |it: &&Arc<Value>| !meta::is_deleting(it) && uses(it, own.as_ref());
    view.subscriptions.iter().filter(using).collect()
}

fn name(object: &Value) -> String {
    format!("{}/{}", meta::namespace(object), meta::name(object))
}

/// Takes a template out of a Subscription's feeds.
fn without(subscription: &Value, template: &Value) -> Action {
    let own = Feed::of_template(template);
    let feeds = subscription["spec"]["feeds"].as_array().into_iter().flatten();
    let others: Vec<&Value> = feeds
        .filter(|feed| {
            !own.as_ref()
                .is_some_and(|own| Feed::from_value(feed).is_same(own))
        })
        .collect();
    let patch = json!({
        "metadata": {"resourceVersion": meta::resource_version(subscription)}, "spec": {"feeds": others},
    });
    Action::patch(&apps::SUBSCRIPTIONS, subscription, patch)
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
            bases: &[],
            in_use: InUse::Protect,
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
                subscriptions: &[],
                bases: &[],
                in_use: InUse::Protect,
            }),
            Plan::default()
        );
    }

    #[test]
    fn labels_say_who_uses_it_all_at_once() {
        let mut template = manifest(false, true);
        template["metadata"]["labels"]["mine"] = json!("Basement");
        meta::set_label(&mut template, "gone", "Base");
        meta::set_label(&mut template, "gone-sub", "Subscription");
        let base = |uid: &str, feed: &str| {
            let mut base = Value::clone(&subscription(uid, feed));
            base["metadata"]["uid"] = json!(uid);
            meta::set_label(&mut base, labels::SUBSCRIPTION_UID, "sub");
            base
        };
        let mut going = base("c", "foo");
        going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let bases = [base("a", "foo"), base("b", "foo"), going, base("d", "other")].map(Arc::new);
        let run = |template: &Value, bases: &[Arc<Value>]| {
            plan(&View {
                template,
                subscriptions: &[],
                bases,
                in_use: InUse::Protect,
            })
        };
        let planned = run(&template, &bases);
        let [Action::Patch { patch, .. }] = &planned.actions[..] else {
            panic!("one write: {planned:?}")
        };
        let expected = json!({"a": "Base", "b": "Base", "c": "Base", "sub": "Subscription", "gone": null, "gone-sub": null});
        assert_eq!(patch["metadata"]["labels"], expected);
        for user in ["a", "b", "c"] {
            meta::set_label(&mut template, user, "Base");
        }
        meta::set_label(&mut template, "sub", "Subscription");
        let metadata = template["metadata"]["labels"].as_object_mut().unwrap();
        metadata.retain(|key, _| !key.starts_with("gone"));
        assert_eq!(run(&template, &bases), Plan::default());
        let planned = run(&template, &[]);
        let Action::Patch { patch, .. } = &planned.actions[0] else {
            panic!()
        };
        assert_eq!(
            patch["metadata"]["labels"],
            json!({"a": null, "b": null, "c": null, "sub": null})
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
            bases: &[],
            in_use: InUse::Protect,
        });
        let Next::Blocked(why) = &planned.next else {
            panic!()
        };
        assert!(why.contains("(including default/a, default/b)"), "{why}");
        meta::set_annotation(&mut template, annotations::FEED_PROTECTION, why);
        let again = plan(&View {
            template: &template,
            subscriptions: &subscriptions,
            bases: &[],
            in_use: InUse::Protect,
        });
        assert!(!again.writes(), "said once");
        let free = plan(&View {
            template: &template,
            subscriptions: &subscriptions[2..],
            bases: &[],
            in_use: InUse::Protect,
        });
        let Action::Patch { patch, .. } = &free.actions[0] else {
            panic!()
        };
        assert_eq!(patch["metadata"]["finalizers"], json!([]));
    }

    #[test]
    fn without_protection_its_users_lose_it() {
        let subscriptions = [subscription("a", "foo"), subscription("c", "other")];
        let run = |template: &Value, in_use| {
            plan(&View {
                template,
                subscriptions: &subscriptions,
                bases: &[],
                in_use,
            })
        };
        let kept = run(&manifest(false, false), InUse::Drop);
        let Action::Patch { patch, .. } = &kept.actions[0] else {
            panic!()
        };
        assert_eq!(
            patch["metadata"]["finalizers"],
            json!(["apps.clusternet.io/finalizer"])
        );
        for (protected, in_use, writes) in [
            (true, InUse::Drop, 2),
            (true, InUse::Protect, 1),
            (false, InUse::Protect, 1),
        ] {
            let plan = run(&manifest(true, protected), in_use);
            assert_eq!(plan.actions.len(), writes, "{protected} {in_use:?}");
        }
        let plan = run(&manifest(true, true), InUse::Drop);
        let Action::Patch { target, patch, .. } = &plan.actions[0] else {
            panic!()
        };
        assert_eq!((target.name.as_str(), &patch["spec"]["feeds"]), ("a", &json!([])));
        assert_eq!(plan.next, Next::Done);
    }
}

//! Localizations and Globalizations as objects: held until what they changed is put back, and labelled with the
//! template that they change, so that people and other programs find them by it.

use api::{apps, finalizers, reasons};
use machinery::meta;
use serde_json::{Map, Value, json};

use crate::action::{Action, Next, Plan, add_finalizer, remove_finalizers};
use crate::division;
use crate::feed::Feed;

/// What one plan may look at.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// A Localization or a Globalization.
    pub policy: &'a Value,
    /// The template of its feed.
    pub template: Option<&'a Value>,
}

/// What to do about a policy.
///
/// One that goes is left out of the next plan of each Base; nothing has to wait for that.
pub fn plan(view: &View<'_>) -> Plan {
    let policy = view.policy;
    let resource = if meta::namespace(policy).is_empty() {
        &apps::GLOBALIZATIONS
    } else {
        &apps::LOCALIZATIONS
    };
    let mut plan = Plan::default();
    if meta::is_deleting(policy) {
        if let Some(patch) = remove_finalizers(policy, &[finalizers::APP]) {
            plan.push(Action::patch(resource, policy, patch));
        }
        return plan;
    }
    let word = policy["spec"]["overridePolicy"].as_str().unwrap_or_default();
    if !matches!(word, "" | "ApplyNow" | "ApplyLater") {
        let note =
            format!("overridePolicy \"{word}\" is neither ApplyNow nor ApplyLater; it is applied later");
        plan.push(Action::warning(policy, reasons::INVALID_OVERRIDE_POLICY, note));
    }
    let feed = Feed::from_value(&policy["spec"]["feed"]);
    // Those that divide go with their Base, by its hand.
    let finalizer = (!division::is_made_here(policy))
        .then(|| add_finalizer(policy, finalizers::APP))
        .flatten();
    let mut patch = finalizer.unwrap_or_else(|| json!({"metadata": {}}));
    let labels = labels(view, &feed);
    if !labels.is_empty() {
        patch["metadata"]["labels"] = Value::Object(labels);
    }
    if patch != json!({"metadata": {}}) {
        plan.push(Action::patch(resource, policy, patch));
    }
    if view.template.is_none() {
        plan.next = Next::Blocked(format!("{feed} in {} does not exist", feed.api_version));
    }
    plan
}

/// The uid of the template, and away with those of earlier ones.
fn labels(view: &View<'_>, feed: &Feed) -> Map<String, Value> {
    let uid = view.template.map(meta::uid).unwrap_or_default();
    let mut labels = Map::new();
    for (key, kind) in meta::labels(view.policy).into_iter().flatten() {
        let of_a_feed = is_uid(key) && kind != "Subscription" && kind != "Base";
        if of_a_feed && key != uid {
            labels.insert(key.clone(), Value::Null);
        }
    }
    if !uid.is_empty() && meta::label(view.policy, uid) != Some(&feed.kind) {
        labels.insert(uid.to_owned(), json!(feed.kind));
    }
    labels
}

/// Whether a label's key has the form of a uid.
fn is_uid(key: &str) -> bool {
    let parts: Vec<&str> = key.split('-').collect();
    let hex = |part: &&str| part.bytes().all(|byte| byte.is_ascii_hexdigit());
    parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12]) && parts.iter().all(hex)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::world::World;

    const OLD: &str = "00000000-0000-4000-8000-000000000001";
    const NEW: &str = "00000000-0000-4000-8000-00000000000a";

    fn template(uid: &str) -> Arc<Value> {
        Arc::new(json!({"kind": "Manifest", "metadata": {"uid": uid}}))
    }

    fn world(policy: &Value) -> World {
        let mut world = World::default();
        world.put(&apps::LOCALIZATIONS, policy.clone());
        world
    }

    fn localization() -> Value {
        json!({"metadata": {"namespace": "ns", "name": "l", "labels": {OLD: "Deployment", "mine": "Deployment",
                "00000000-0000-4000-8000-000000000002": "Subscription"}},
            "spec": {"overridePolicy": "ApplyNow", "feed": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}})
    }

    fn pass(world: &World, template: Option<&Value>) -> Plan {
        let policy = world.get(&apps::LOCALIZATIONS, "ns", "l").unwrap();
        plan(&View { policy, template })
    }

    #[test]
    fn carries_the_uid_of_its_template_and_no_other() {
        let mut world = world(&localization());
        let template = template(NEW);
        world.apply(&pass(&world, Some(&template)));
        let policy = world.get(&apps::LOCALIZATIONS, "ns", "l").unwrap();
        assert!(meta::has_finalizer(policy, finalizers::APP));
        assert_eq!(
            policy["metadata"]["labels"],
            json!({NEW: "Deployment", "mine": "Deployment", "00000000-0000-4000-8000-000000000002": "Subscription"})
        );
        assert_eq!(pass(&world, Some(&template)), Plan::default());
        let gone = pass(&world, None);
        assert_eq!(
            gone.next,
            Next::Blocked("Deployment web in apps/v1 does not exist".to_owned())
        );
        world.apply(&gone);
        assert_eq!(
            meta::label(world.get(&apps::LOCALIZATIONS, "ns", "l").unwrap(), NEW),
            None
        );
    }

    #[test]
    fn goes_when_it_is_deleted() {
        let mut world = world(&localization());
        world.apply(&pass(&world, Some(&template(NEW))));
        world.delete(&apps::LOCALIZATIONS, "ns", "l");
        world.apply(&pass(&world, None));
        assert_eq!(world.get(&apps::LOCALIZATIONS, "ns", "l"), None);
    }

    #[test]
    fn those_that_divide_are_not_held() {
        let mut dividing = localization();
        dividing["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps.clusternet.io/v1alpha1", "kind": "Base",
            "name": "b", "uid": "u", "controller": true}]);
        let mut world = world(&dividing);
        world.apply(&pass(&world, Some(&template(NEW))));
        let policy = world.get(&apps::LOCALIZATIONS, "ns", "l").unwrap();
        assert_eq!(meta::finalizers(policy).count(), 0);
        assert_eq!(meta::label(policy, NEW), Some("Deployment"));
    }

    #[test]
    fn says_which_word_is_none() {
        let mut odd = localization();
        odd["spec"]["overridePolicy"] = json!("Sometimes");
        let world = world(&odd);
        let Action::Event { reason, .. } = &pass(&world, None).actions[0] else {
            panic!()
        };
        assert_eq!(reason, "InvalidOverridePolicy");
    }
}

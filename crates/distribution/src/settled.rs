//! Whether a division is the answer to what is wanted now.
//!
//! A template, its FeedInventory and the scheduler's answer change one after the other. Between the first and the last
//! a cluster would get the new template with the old division, or half of both, so its Description stays as it is until
//! the answer has come. A scheduler that gives none is not waited for longer than [`PATIENCE`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::spec_hash;
use serde_json::{Value, json};

use crate::feed::Feed;

/// How long an answer is waited for: longer than it takes another scheduler to take over from one that is gone.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Finds the template of a feed.
pub type Lookup<'a> = dyn Fn(&Feed) -> Option<Arc<Value>> + 'a;

/// What one look at a Subscription may see.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// The Subscription.
    pub subscription: &'a Value,
    /// The FeedInventory of its namespace and name.
    pub inventory: Option<&'a Value>,
    /// The template of a feed, if FeedInventories are made here; those of others follow rules of their own.
    pub template: Option<&'a Lookup<'a>>,
}

/// What is still missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unsettled {
    /// The status is no answer to what is wanted.
    Unanswered(String),
    /// Fewer replicas have a place than are wanted: it may be an answer, where there is no room.
    Short(String),
}

impl Unsettled {
    /// What is missing, for people.
    pub fn why(&self) -> &str {
        match self {
            Self::Unanswered(why) | Self::Short(why) => why,
        }
    }
}

/// What is missing until the division belongs to the present spec, inventory and templates.
pub fn missing(view: &View<'_>) -> Option<Unsettled> {
    let (spec, status) = (&view.subscription["spec"], &view.subscription["status"]);
    // A scheduler that tells no hash cannot be asked which spec it has seen.
    let hash = status["specHash"].as_u64();
    if hash.is_some_and(|hash| hash != spec_hash::of(spec)) {
        let why = "the scheduler has not decided on the present spec yet";
        return Some(Unsettled::Unanswered(why.to_owned()));
    }
    let replicas = status["replicas"].as_object().filter(|it| !it.is_empty())?;
    if spec["schedulingStrategy"] != "Dividing" {
        return None;
    }
    let by_room = spec["dividingScheduling"]["type"] == "Dynamic";
    let entries = view.inventory?["spec"]["feeds"].as_array()?;
    for entry in entries {
        let feed = Feed::from_value(entry);
        let Some(desired) = entry["desiredReplicas"].as_u64() else {
            continue;
        };
        if let Some(template) = view.template.and_then(|template| template(&feed)) {
            let path = entry["replicaJsonPath"].as_str().unwrap_or_default();
            let asked = template["template"].pointer(path).and_then(Value::as_u64);
            if asked.is_some_and(|asked| asked != desired) {
                let why = format!("the FeedInventory still says {desired} replica(s) of {feed}");
                return Some(Unsettled::Unanswered(why));
            }
        }
        let list = replicas.get(&feed.key()).and_then(Value::as_array);
        let Some(list) = list.filter(|list| !list.is_empty()) else {
            let why = format!("{feed} is not divided yet");
            return Some(Unsettled::Unanswered(why));
        };
        let placed: u64 = list.iter().filter_map(Value::as_u64).fold(0, u64::saturating_add);
        let why = || format!("{placed} of {desired} replica(s) of {feed} have a place");
        if by_room && placed < desired {
            return Some(Unsettled::Short(why()));
        }
        if placed != desired {
            return Some(Unsettled::Unanswered(why()));
        }
    }
    None
}

/// What was asked of the scheduler, since when, and what it had said then.
#[derive(Debug, Clone, PartialEq)]
struct Asked {
    question: Value,
    answer: [Value; 3],
    since: Duration,
}

/// Whose answers are waited for, by the uids of the Subscriptions. Time is a [`Duration`] since any fixed moment.
#[derive(Debug, Default)]
pub struct Waiting(BTreeMap<String, Asked>);

impl Waiting {
    /// What a Subscription waits for, and for how long at most. Only a new question is waited for anew.
    pub fn look(&mut self, uid: &str, view: &View<'_>, now: Duration) -> Option<(Unsettled, Duration)> {
        let answer =
            || ["bindingClusters", "replicas", "specHash"].map(|field| &view.subscription["status"][field]);
        let question = question(view);
        let (since, before) = match self.0.get(uid).filter(|asked| asked.question == question) {
            Some(asked) => (asked.since, Some(&asked.answer)),
            None => {
                let asked = Asked {
                    question,
                    answer: answer().map(Value::clone),
                    since: now,
                };
                self.0.insert(uid.to_owned(), asked);
                (now, None)
            }
        };
        let unsettled = missing(view)?;
        let left = (since + PATIENCE)
            .checked_sub(now)
            .filter(|left| !left.is_zero())?;
        match unsettled {
            Unsettled::Short(_) if before.is_some_and(|before| !before.iter().eq(answer())) => None,
            Unsettled::Short(_) | Unsettled::Unanswered(_) => Some((unsettled, left)),
        }
    }

    /// Forgets one that is gone.
    pub fn forget(&mut self, uid: &str) {
        self.0.remove(uid);
    }
}

/// What a scheduler decides by.
fn question(view: &View<'_>) -> Value {
    let entries = view.inventory.and_then(|it| it["spec"]["feeds"].as_array());
    let wanted = entries.into_iter().flatten().map(|entry| {
        let template = view
            .template
            .and_then(|template| template(&Feed::from_value(entry)));
        let path = entry["replicaJsonPath"].as_str();
        let asked = template.and_then(|it| it["template"].pointer(path?).cloned());
        json!([entry["desiredReplicas"], asked])
    });
    json!([
        spec_hash::of(&view.subscription["spec"]),
        wanted.collect::<Vec<_>>()
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    const WEB: &str = "apps/v1/Deployment/shop/web";

    /// One Deployment over two clusters, of which the scheduler has seen the spec.
    fn subscription(kind: &str, shares: &Value) -> Value {
        let spec = json!({"schedulingStrategy": "Dividing", "dividingScheduling": {"type": kind},
            "subscribers": [], "feeds": [feed()]});
        let hash = spec_hash::of(&spec);
        json!({"metadata": {"uid": "u"}, "spec": spec, "status": {"specHash": hash,
            "bindingClusters": ["ns-a/a", "ns-b/b"], "replicas": {WEB: shares}}})
    }

    fn feed() -> Value {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"})
    }

    fn inventory(desired: u64) -> Value {
        let mut entry = feed();
        entry["desiredReplicas"] = json!(desired);
        entry["replicaJsonPath"] = json!("/spec/replicas");
        json!({"spec": {"feeds": [entry, {"apiVersion": "v1", "kind": "ConfigMap", "name": "x"}]}})
    }

    fn look(subscription: &Value, desired: u64, template: Option<u64>) -> Option<&'static str> {
        let inventory = inventory(desired);
        let of = |_: &Feed| Some(Arc::new(json!({"template": {"spec": {"replicas": template}}})));
        let missing = missing(&View {
            subscription,
            inventory: Some(&inventory),
            template: template.is_some().then_some(&of as &Lookup<'_>),
        });
        missing.map(|it| match it {
            Unsettled::Unanswered(_) => "unanswered",
            Unsettled::Short(_) => "short",
        })
    }

    #[test]
    fn an_answer_belongs_to_a_question() {
        let unanswered = Some("unanswered");
        for (case, kind, shares, desired, template, expected) in [
            ("as wanted", "Static", json!([5, 5]), 10, Some(10), None),
            (
                "the inventory is behind",
                "Static",
                json!([5, 5]),
                10,
                Some(5),
                unanswered,
            ),
            (
                "the division is behind",
                "Static",
                json!([5, 5]),
                5,
                Some(5),
                unanswered,
            ),
            ("all in one", "Static", json!([5, 0]), 5, Some(5), None),
            ("another's inventory", "Static", json!([5, 5]), 10, None, None),
            ("too few", "Static", json!([5, 4]), 10, Some(10), unanswered),
            (
                "no room, perhaps",
                "Dynamic",
                json!([5, 4]),
                10,
                Some(10),
                Some("short"),
            ),
            (
                "too many by room",
                "Dynamic",
                json!([5, 6]),
                10,
                Some(10),
                unanswered,
            ),
            (
                "a feed that was whole",
                "Static",
                json!([]),
                10,
                Some(10),
                unanswered,
            ),
        ] {
            assert_eq!(
                look(&subscription(kind, &shares), desired, template),
                expected,
                "{case}"
            );
        }
        let mut edited = subscription("Static", &json!([5, 5]));
        edited["spec"]["priority"] = json!(7);
        assert_eq!(look(&edited, 10, Some(10)), unanswered, "the spec was edited");
        edited["spec"]["schedulingStrategy"] = json!("Replication");
        assert_eq!(look(&edited, 10, Some(10)), unanswered, "the strategy was edited");
        edited["status"]["specHash"] = json!(spec_hash::of(&edited["spec"]));
        assert_eq!(look(&edited, 7, Some(8)), None, "numbers are of no matter");
        let mut silent = subscription("Static", &json!([5, 5]));
        silent["spec"]["priority"] = json!(7);
        silent["status"]["specHash"] = Value::Null;
        assert_eq!(look(&silent, 10, Some(10)), None, "the scheduler tells no hash");
        let mut whole = subscription("Static", &json!([5, 5]));
        whole["status"]["replicas"] = json!({});
        assert_eq!(look(&whole, 10, Some(9)), None, "nobody has a weight");
    }

    #[test]
    fn nobody_waits_for_ever() {
        let at = Duration::from_secs;
        let mut waiting = Waiting::default();
        let mut look = |subscription: &Value, desired: u64, now: u64| {
            let inventory = inventory(desired);
            let view = View {
                subscription,
                inventory: Some(&inventory),
                template: None,
            };
            waiting.look("u", &view, at(now)).map(|(_, left)| left.as_secs())
        };
        let fixed = subscription("Static", &json!([5, 5]));
        assert_eq!(look(&fixed, 10, 0), None);
        assert_eq!(look(&fixed, 5, 100), Some(30), "a new question");
        assert_eq!(look(&fixed, 5, 110), Some(20));
        assert_eq!(look(&fixed, 5, 130), None, "no answer");
        assert_eq!(look(&fixed, 5, 1_000), None, "the same question");
        assert_eq!(look(&fixed, 6, 1_000), Some(30));
        let short = subscription("Dynamic", &json!([5, 4]));
        assert_eq!(look(&short, 12, 2_000), Some(30));
        let shorter = subscription("Dynamic", &json!([5, 5]));
        assert_eq!(
            look(&shorter, 12, 2_001),
            None,
            "that was the answer: there is no more room"
        );
        let less = subscription("Static", &json!([5, 4]));
        assert_eq!(look(&less, 12, 3_000), Some(30));
        let lesser = subscription("Static", &json!([5, 3]));
        assert_eq!(look(&lesser, 12, 3_001), Some(29), "an answer to something else");
    }

    /// Case D12 (b): the template goes from 10 to 5 replicas, the weights from 1:1 to 1:0. Whichever of the two, the
    /// inventory and the scheduler's answer has been seen, what goes out belongs to what is in force: neither half of an
    /// answer nor an answer to half.
    #[test]
    fn two_edits_are_one_whatever_comes_first() {
        let mut spec = subscription("Static", &json!([]))["spec"].clone();
        let spec = |weighted: bool| {
            spec["subscribers"] = json!([{"weight": u8::from(weighted)}]);
            spec.clone()
        };
        let specs = [false, true].map(spec);
        let totals = [10_u64, 5];
        let mut settled = Vec::new();
        for state in 0..32_usize {
            let bit = |place: usize| state >> place & 1;
            let (template, total, answered) = (totals[bit(0)], totals[bit(1)], totals[bit(2)]);
            let (weighted, seen) = (bit(3), bit(4));
            let shares = match seen {
                0 => [answered - answered / 2, answered / 2],
                _ => [answered, 0],
            };
            let mut subscription = subscription("Static", &json!(shares));
            subscription["spec"] = specs[weighted].clone();
            subscription["status"]["specHash"] = json!(spec_hash::of(&specs[seen]));
            if look(&subscription, total, Some(template)).is_none() {
                settled.push((template, weighted, shares));
            }
        }
        settled.sort_unstable();
        let expected = [(5, 0, [3, 2]), (5, 1, [5, 0]), (10, 0, [5, 5]), (10, 1, [10, 0])];
        assert_eq!(settled, expected);
    }
}

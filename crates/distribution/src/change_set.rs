//! Change sets: objects that are edited one after the other and take effect together.
//!
//! What carries the annotation `apps.tombolo.io/change-set: NAME/COUNT` waits until so many objects carry exactly the
//! same: Subscriptions, templates, Localizations and Globalizations, in any namespace. Until then every Subscription
//! that one of them concerns stays as it is. A set that was complete once is remembered on the Subscriptions that it
//! concerns, so that an object that goes on to the next set does not leave those behind that carry the last one.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use api::annotations::{CHANGE_SETS_TAKEN, FROZEN_BY};
use api::change_set::{count, of, taken};
use api::{apps, reasons};
use machinery::meta;
use serde_json::{Value, json};

use crate::action::{Action, Plan};

/// How many objects a message names.
const NAMED: usize = 8;

/// Why a Subscription stays as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incomplete {
    /// What the annotation says.
    pub set: String,
    /// Who carries it.
    pub there: Vec<String>,
    /// How many do not.
    pub missing: usize,
}

impl fmt::Display for Incomplete {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { set, there, missing } = self;
        write!(f, "change set {set} lacks {missing} object(s); there are ")?;
        f.write_str(&there.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", "))?;
        if there.len() > NAMED {
            write!(f, " and {} more", there.len() - NAMED)?;
        }
        Ok(())
    }
}

/// How a Subscription stands to the change sets that concern it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Standing {
    /// Those that keep it as it is.
    pub incomplete: Vec<Incomplete>,
    /// Those that are complete or were.
    taken: BTreeSet<String>,
    /// What is wrong with annotations.
    faults: Vec<String>,
}

/// How a Subscription stands, given what concerns it (itself, its templates, what changes those) and who carries an
/// annotation.
pub fn standing(
    subscription: &Value,
    concerning: &[Arc<Value>],
    carriers: &dyn Fn(&str) -> Vec<Arc<Value>>,
) -> Standing {
    let mut standing = Standing::default();
    let concerning = concerning.iter().map(|it| (&**it, of(it)));
    let all = concerning.chain([(subscription, of(subscription))]);
    let sets: BTreeSet<&str> = all.filter_map(|(_, set)| set).collect();
    let taken: BTreeSet<&str> = taken(subscription).collect();
    for set in sets {
        let count = match count(set) {
            Ok(count) => count,
            Err(fault) => {
                standing.faults.push(fault.to_string());
                continue;
            }
        };
        let there = carriers(set);
        if there.len() >= count || taken.contains(set) {
            standing.taken.insert(set.to_owned());
            continue;
        }
        let mut names: Vec<String> = there.iter().map(|it| told(it)).collect();
        names.sort_unstable();
        standing.incomplete.push(Incomplete {
            set: set.to_owned(),
            there: names,
            missing: count - there.len(),
        });
    }
    standing
}

/// An object as people name it; a template is what is in it.
fn told(object: &Value) -> String {
    let template = &object["template"];
    let object = if template.is_object() { template } else { object };
    match (meta::kind(object), meta::namespace(object), meta::name(object)) {
        (kind, "", name) => format!("{kind} {name}"),
        (kind, namespace, name) => format!("{kind} {namespace}/{name}"),
    }
}

impl Standing {
    /// Whether the Subscription stays as it is.
    pub fn is_frozen(&self) -> bool {
        !self.incomplete.is_empty()
    }

    /// Notes on the Subscription how it stands, for the scheduler and for later, and tells people.
    pub(crate) fn plan(&self, subscription: &Value, plan: &mut Plan) {
        let frozen: Vec<&str> = self.incomplete.iter().map(|it| &*it.set).collect();
        let taken: Vec<&str> = self.taken.iter().map(|it| &**it).collect();
        let mut patch = json!({});
        for (key, sets) in [(FROZEN_BY, frozen), (CHANGE_SETS_TAKEN, taken)] {
            let wanted = Some(sets.join(",")).filter(|text| !text.is_empty());
            if meta::annotation(subscription, key) != wanted.as_deref() {
                patch[key] = json!(wanted);
            }
        }
        if patch != json!({}) {
            let patch = json!({"metadata": {"annotations": patch}});
            plan.push(Action::patch(&apps::SUBSCRIPTIONS, subscription, patch));
        }
        for incomplete in &self.incomplete {
            let note = incomplete.to_string();
            plan.push(Action::normal(subscription, reasons::CHANGE_SET_INCOMPLETE, note));
        }
        for fault in &self.faults {
            plan.push(Action::warning(subscription, reasons::INVALID_CHANGE_SET, fault));
        }
    }
}

#[cfg(test)]
mod tests {
    use api::annotations::CHANGE_SET;

    use super::*;

    /// `Kind name set`; a Deployment is in a Manifest.
    fn object(text: &str) -> Arc<Value> {
        let mut words = text.split(' ');
        let mut next = || words.next().unwrap();
        let (kind, name, set) = (next(), next(), next());
        let object = json!({"kind": kind, "metadata": {"namespace": "shop", "name": name, "annotations": {CHANGE_SET: set}}});
        Arc::new(if kind == "Deployment" {
            json!({"kind": "Manifest", "metadata": {"name": "x"}, "template": object})
        } else {
            object
        })
    }

    fn stands(own: &str, taken: &str, concerning: &[&str], elsewhere: &[&str]) -> Standing {
        let mut subscription = Value::clone(&object(&format!("Subscription app {own}")));
        if own.is_empty() {
            subscription["metadata"]["annotations"] = json!({});
        }
        subscription["metadata"]["annotations"][CHANGE_SETS_TAKEN] = json!(taken);
        let read = |texts: &[&str]| texts.iter().map(|text| object(text)).collect::<Vec<_>>();
        let concerning = read(concerning);
        let mut all = read(elsewhere);
        all.extend(concerning.iter().cloned());
        all.push(Arc::new(subscription.clone()));
        standing(&subscription, &concerning, &|set| {
            all.iter().filter(|it| of(it) == Some(set)).cloned().collect()
        })
    }

    #[test]
    fn a_set_takes_effect_when_all_of_it_is_there() {
        let (web, other) = ("Deployment web r/2", "Localization loc r/2");
        for (case, own, taken, concerning, elsewhere, expected) in [
            ("nothing carries one", "", "", &[][..], &[][..], ""),
            ("one of two", "r/2", "", &[], &[], "r/2"),
            ("both", "r/2", "", &[web], &[], ""),
            ("the other concerns somebody else", "r/2", "", &[], &[other], ""),
            ("only a template", "", "", &[web], &[], "r/2"),
            ("another name", "r/2", "", &["Deployment web s/2"], &[], "r/2 s/2"),
            (
                "another count",
                "r/2",
                "",
                &["Deployment web r/3"],
                &[],
                "r/2 r/3",
            ),
            ("more than wanted", "r/1", "", &["Deployment web r/1"], &[], ""),
            ("it was complete", "r/2", "r/2", &[], &[], ""),
            ("the next one is not", "s/2", "r/2", &[web], &[], "s/2"),
            (
                "nonsense freezes nothing",
                "r",
                "",
                &["Deployment web r/0"],
                &[],
                "",
            ),
        ] {
            let standing = stands(own, taken, concerning, elsewhere);
            let sets: Vec<&str> = standing.incomplete.iter().map(|it| &*it.set).collect();
            assert_eq!(sets.join(" "), expected, "{case}");
            assert_eq!(standing.is_frozen(), !expected.is_empty(), "{case}");
        }
    }

    #[test]
    fn says_who_is_there_and_notes_it() {
        let standing = stands(
            "r/4",
            "q/2,old/1",
            &["Deployment web r/4", "Localization loc q/2"],
            &[],
        );
        assert_eq!(
            standing.incomplete[0].to_string(),
            "change set r/4 lacks 2 object(s); there are Deployment shop/web, Subscription shop/app"
        );
        let mut subscription =
            json!({"metadata": {"name": "app", "annotations": {CHANGE_SETS_TAKEN: "q/2,old/1"}}});
        let mut plan = Plan::default();
        standing.plan(&subscription, &mut plan);
        let Action::Patch { patch, .. } = &plan.actions[0] else {
            panic!("{plan:?}")
        };
        let expected = json!({FROZEN_BY: "r/4", CHANGE_SETS_TAKEN: "q/2"});
        assert_eq!(
            patch["metadata"]["annotations"], expected,
            "what concerns it no more is forgotten"
        );
        machinery::patch::merge_patch(&mut subscription, patch);
        let mut again = Plan::default();
        standing.plan(&subscription, &mut again);
        assert!(!again.writes());
        let mut thawed = Plan::default();
        Standing::default().plan(&subscription, &mut thawed);
        let Action::Patch { patch, .. } = &thawed.actions[0] else {
            panic!("{thawed:?}")
        };
        assert_eq!(
            patch["metadata"]["annotations"],
            json!({FROZEN_BY: null, CHANGE_SETS_TAKEN: null})
        );
        let many = Incomplete {
            set: "r/20".into(),
            there: (0..10).map(|n| format!("Deployment shop/{n}")).collect(),
            missing: 10,
        };
        assert!(
            many.to_string().ends_with("Deployment shop/7 and 2 more"),
            "{many}"
        );
    }
}

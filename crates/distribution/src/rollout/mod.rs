//! Rollouts: new content goes through a Subscription's clusters wave by wave, and back if it fails.
//!
//! What a cluster gets is the version that its Base names in an annotation ([`crate::version`]); a Base that names none
//! waits. Moving a cluster is changing that annotation. How far all is, is in the Rollout's status and in the Bases: a plan
//! may be cut off after any of its writes, and the next one goes on from there.
//!
//! The order of the writes: first the Secrets that keep a version, then the status that names it, then the Bases, and last
//! goes what nothing names any more.

mod member;
mod pass;
mod spec;
mod state;
mod waves;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::{annotations, kubernetes, reasons};
use jiff::Timestamp;
use machinery::meta;
use serde_json::Value;

use crate::action::{Action, Next, Plan};
use crate::feed::Feed;
use crate::version::Index;

use self::member::Member;
pub use self::pass::is_final;
pub use self::spec::Fault;
use self::state::State;

/// What one plan may look at.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// The Subscription, if it is there.
    pub subscription: Option<&'a Value>,
    /// Every Rollout that names it.
    pub rollouts: &'a [Arc<Value>],
    /// Its Bases.
    pub bases: &'a [Arc<Value>],
    /// Every Description that carries its uid.
    pub descriptions: &'a [Arc<Value>],
    /// The ManagedCluster of a binding: namespace and name.
    pub cluster: &'a dyn Fn(&str, &str) -> Option<Arc<Value>>,
    /// The template of a feed.
    pub template: &'a dyn Fn(&Feed) -> Option<Arc<Value>>,
    /// Every Globalization.
    pub globalizations: &'a [Arc<Value>],
    /// The Secrets that keep versions of it.
    pub revisions: &'a [Arc<Value>],
    /// The namespace of those.
    pub reserved_namespace: &'a str,
    /// The time.
    pub now: Timestamp,
}

impl View<'_> {
    fn secret(&self, name: &str) -> Option<Arc<Value>> {
        let found = self.revisions.iter().find(|it| meta::name(it) == name);
        found.filter(|it| !meta::is_deleting(it)).cloned()
    }
}

/// The Rollout that counts, of all that name one Subscription: the oldest.
pub fn in_charge(rollouts: &[Arc<Value>]) -> Option<&Arc<Value>> {
    let alive = rollouts.iter().filter(|it| !meta::is_deleting(it));
    alive.min_by_key(|it| (meta::creation_timestamp(it), meta::name(it)))
}

/// Which wave each bound cluster is in, by its dedicated namespace, as the Rollout in charge has it; nothing without one,
/// or if that makes no sense.
pub fn waves(
    rollouts: &[Arc<Value>],
    subscription: &Value,
    bases: &[Arc<Value>],
    cluster: &dyn Fn(&str, &str) -> Option<Arc<Value>>,
) -> BTreeMap<String, String> {
    let Some(rollout) = in_charge(rollouts) else {
        return BTreeMap::new();
    };
    let Ok(spec) = spec::Spec::of(rollout) else {
        return BTreeMap::new();
    };
    let members = Member::all(subscription, bases, &[], cluster);
    let target = State::of(rollout).target.unwrap_or_default();
    let waves = waves::memberships(&spec.waves, &members, &target);
    let home = |member: &usize| meta::namespace(&members[*member].cluster).to_owned();
    let members = |(name, members): &(String, Vec<usize>)| -> Vec<(String, String)> {
        members.iter().map(|it| (home(it), name.clone())).collect()
    };
    waves.iter().flat_map(members).collect()
}

/// The short form of a version's name, for people.
pub fn short(version: &str) -> &str {
    version.get(..8).unwrap_or(version)
}

/// What to do about the Rollouts of a Subscription, and what it is kept for them.
pub fn plan(view: &View<'_>) -> Plan {
    // Times on the wire are whole seconds.
    let now = Timestamp::from_second(view.now.as_second()).unwrap_or(view.now);
    let view = &View { now, ..*view };
    let mut plan = Plan::default();
    let chosen = in_charge(view.rollouts);
    for other in view.rollouts.iter().filter(|it| !meta::is_deleting(it)) {
        if let Some(chosen) = chosen.filter(|it| meta::uid(it) != meta::uid(other)) {
            let why = format!("Rollout {} is older, and it alone counts", meta::name(chosen));
            let state = State::of(other).forgotten();
            report(view, other, state, reasons::ANOTHER_ROLLOUT, why, &mut plan);
        }
    }
    let mut kept = Kept::default();
    match (chosen, view.subscription) {
        (Some(rollout), None) => {
            let subscription = rollout["spec"]["subscription"].as_str().unwrap_or_default();
            let why = format!("there is no Subscription {subscription}");
            // A later one of that name is another.
            let state = State::of(rollout).forgotten();
            report(
                view,
                rollout,
                state,
                reasons::SUBSCRIPTION_NOT_FOUND,
                why,
                &mut plan,
            );
        }
        (Some(rollout), Some(subscription)) => {
            if meta::is_deleting(subscription) {
                return plan;
            }
            match spec::Spec::of(rollout) {
                Err(fault) => {
                    let state = State::of(rollout);
                    let why = fault.to_string();
                    report(view, rollout, state, reasons::INVALID_ROLLOUT, why, &mut plan);
                    // What it was about stays as it is.
                    return plan;
                }
                Ok(spec) => kept = pass::run(view, rollout, subscription, &spec, &mut plan),
            }
        }
        (None, Some(_)) => {
            let named = view
                .bases
                .iter()
                .filter_map(|it| meta::annotation(it, annotations::VERSION));
            kept.versions.extend(named.map(str::to_owned));
        }
        (None, None) => {}
    }
    collect(view, kept, &mut plan);
    plan
}

/// What is not to be thrown away.
#[derive(Default)]
struct Kept {
    versions: BTreeSet<String>,
    /// The Secrets of a version that this plan may only be about to keep.
    secrets: BTreeSet<String>,
}

/// Removes what keeps none of these versions.
fn collect(view: &View<'_>, kept: Kept, plan: &mut Plan) {
    let Kept {
        versions,
        secrets: mut needed,
    } = kept;
    if let Some(subscription) = view.subscription {
        for version in &versions {
            // One that cannot be read can be of no use any more.
            if let Ok(index) = Index::load(version, subscription, &|name| view.secret(name)) {
                needed.extend(index.secret_names(version));
            }
        }
    }
    for secret in view.revisions {
        if !needed.contains(meta::name(secret)) && !meta::is_deleting(secret) {
            plan.push(Action::delete(&kubernetes::SECRETS, secret));
        }
    }
}

/// A Rollout that nothing is done for says why.
fn report(view: &View<'_>, rollout: &Value, mut state: State, reason: &str, why: String, plan: &mut Plan) {
    state.condition(view, rollout, reasons::PROGRESSING, false, reason, &why);
    if let Some(write) = state.write(rollout) {
        plan.push(write);
        plan.push(Action::warning(rollout, reason, why.clone()));
    }
    plan.next = Next::Blocked(why);
}

/// What the Rollouts of its Subscription have a Base made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// What the templates say now.
    Current,
    /// A version of this name.
    Version(String),
    /// Nothing new for the time being; why.
    Wait(String),
}

/// What a Base is to be made of. `rollouts`: all that name its Subscription, or `None` if nobody can tell.
pub fn told(base: &Value, rollouts: Option<&[Arc<Value>]>) -> Told {
    let version = meta::annotation(base, annotations::VERSION);
    match (rollouts.map(in_charge), version) {
        (Some(Some(_)), Some(version)) => Told::Version(version.to_owned()),
        (Some(Some(rollout)), None) => {
            Told::Wait(format!("waiting for its wave of Rollout {}", meta::name(rollout)))
        }
        (None, Some(_)) => Told::Wait("nobody can tell whether there is a Rollout".to_owned()),
        (Some(None), _) | (None, None) => Told::Current,
    }
}

#[cfg(test)]
mod tests;

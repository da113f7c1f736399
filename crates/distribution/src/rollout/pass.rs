//! One look at a Rollout that is in charge of a Subscription.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::rollouts::RolloutPhase::{self, Complete, Failed, Paused, Progressing, RolledBack, RollingBack};
use api::{annotations, reasons, rollouts};
use jiff::Timestamp;
use machinery::meta;
use serde_json::{Value, json};

use super::member::{Member, Stage};
use super::spec::{Amount, Spec};
use super::state::State;
use super::{Kept, View, short};
use crate::action::{Action, Next, Plan};
use crate::version::{Index, Version};

/// What one look knows, and what comes of it.
pub(super) struct Pass<'a> {
    pub(super) view: &'a View<'a>,
    pub(super) rollout: &'a Value,
    pub(super) subscription: &'a Value,
    pub(super) spec: &'a Spec,
    pub(super) state: State,
    pub(super) members: Vec<Member>,
    /// What is distributed now, or why that cannot be told or kept.
    pub(super) current: Result<Version, String>,
    /// How far each member is with the target and the stable version, if that is what it is to have.
    pub(super) judged: BTreeMap<String, Vec<Stage>>,
    /// By wave, the places of its members.
    pub(super) waves: Vec<(String, Vec<usize>)>,
    pub(super) events: Vec<Action>,
    /// When to look again at the latest.
    pub(super) due: Option<Timestamp>,
}

/// What is to be done for a Rollout; answers what must be kept for it.
pub(super) fn run(
    view: &View<'_>,
    rollout: &Value,
    subscription: &Value,
    spec: &Spec,
    plan: &mut Plan,
) -> Kept {
    let mut pass = Pass {
        view,
        rollout,
        subscription,
        spec,
        state: State::of(rollout),
        members: Member::all(subscription, view.bases, view.descriptions, view.cluster),
        current: Version::of(subscription, view.template, view.globalizations),
        judged: BTreeMap::new(),
        waves: Vec::new(),
        events: Vec::new(),
        due: None,
    };
    pass.forget_what_is_lost();
    let made = pass.take_up();
    pass.answer_requests();
    pass.judge();
    pass.waves = pass.memberships();
    pass.advance();
    pass.tell();
    pass.finish(made, plan)
}

impl Pass<'_> {
    fn index_of(&self, version: &str) -> Option<Index> {
        match &self.current {
            Ok(current) if current.name() == version => Some(current.index().clone()),
            Ok(_) | Err(_) => Index::load(version, self.subscription, &|it| self.view.secret(it)).ok(),
        }
    }

    fn judge(&mut self) {
        for version in [&self.state.target, &self.state.stable].into_iter().flatten() {
            if let Some(index) = self.index_of(version) {
                let stages = self.members.iter().map(|it| it.stage(version, &index)).collect();
                self.judged.insert(version.clone(), stages);
            }
        }
    }

    pub(super) fn warn(&mut self, reason: &str, note: String) {
        self.events.push(Action::warning(self.rollout, reason, note));
    }

    pub(super) fn note(&mut self, reason: &str, note: String) {
        self.events.push(Action::normal(self.rollout, reason, note));
    }

    /// There is no going back to a version whose Secrets somebody took away, and a target that is not known is another
    /// Subscription's.
    fn forget_what_is_lost(&mut self) {
        if let Some(target) = &self.state.target
            && self.index_of(target).is_none()
        {
            self.state = std::mem::take(&mut self.state).forgotten();
        }
        for is_stable in [true, false] {
            let state = &mut self.state;
            let place = if is_stable {
                &mut state.stable
            } else {
                &mut state.previous
            };
            let Some(version) = place.take() else {
                continue;
            };
            if self.index_of(&version).is_none() {
                let note = format!(
                    "there is no going back to version {}: its Secrets are gone",
                    short(&version)
                );
                self.warn(reasons::ROLLOUT_BLOCKED, note);
            } else if is_stable {
                self.state.stable = Some(version);
            } else {
                self.state.previous = Some(version);
            }
        }
    }

    /// Takes what is distributed now for the target, if it is something new. Answers the Secrets that keep it.
    fn take_up(&mut self) -> Vec<Value> {
        let Ok(current) = &self.current else {
            return Vec::new();
        };
        let name = current.name().to_owned();
        let is_new = self.state.target.as_deref() != Some(&name);
        // Before anything is bound there is nothing to go through.
        if is_new && self.state.target.is_none() && self.members.is_empty() {
            return Vec::new();
        }
        let is_there = |secret: &str| self.view.secret(secret).is_some();
        let made = match current.secrets(self.view.reserved_namespace, self.subscription, &is_there) {
            Ok(made) => made,
            Err(too_large) => {
                self.current = Err(too_large.to_string());
                return Vec::new();
            }
        };
        if !is_new {
            return made;
        }
        // What was distributed before there was a Rollout is there: nothing has to move.
        let is_first = self.state.target.is_none();
        let is_there = |it: &Member| it.has.is_none() && !it.descriptions.is_empty();
        let adopted = is_first && self.members.iter().all(is_there);
        let state = &mut self.state;
        state.target = Some(name.clone());
        state.begin(self.view.now);
        if state.failed.as_ref() == Some(&name) {
            state.failed = None;
        }
        let all = self.members.len();
        let note = if adopted {
            state.phase = Some(Complete);
            state.stable = Some(name.clone());
            format!("{all} cluster(s) have version {} already", short(&name))
        } else {
            state.phase = Some(Progressing);
            format!("version {} goes out to {all} cluster(s)", short(&name))
        };
        self.note(reasons::ROLLOUT_STARTED, note);
        made
    }

    /// What somebody asked for by annotation.
    fn answer_requests(&mut self) {
        let asked = |key: &str| meta::annotation(self.rollout, key).map(str::to_owned);
        let Some(phase) = self.state.phase else {
            return;
        };
        if let Some(version) = asked(annotations::UNDO)
            && self.state.target.as_ref() == Some(&version)
            && !matches!(phase, RollingBack | RolledBack)
        {
            let stable = self.state.stable.clone();
            let is_through = stable.as_ref() == Some(&version);
            let back = if is_through {
                self.state.previous.clone()
            } else {
                stable
            };
            match back.filter(|it| self.index_of(it).is_some()) {
                None => self.warn(
                    reasons::ROLLOUT_BLOCKED,
                    format!("there is no version before {} to go back to", short(&version)),
                ),
                Some(back) => {
                    if is_through {
                        self.state.previous = None;
                    }
                    self.state.stable = Some(back);
                    self.go_back("somebody asked for it");
                }
            }
            return;
        }
        if let Some(version) = asked(annotations::RETRY)
            && self.state.failed.as_ref() == Some(&version)
            && self.state.target.as_ref() == Some(&version)
        {
            self.state.failed = None;
            self.state.phase = Some(Progressing);
            self.state.begin(self.view.now);
            let note = format!("version {} goes out again", short(&version));
            self.note(reasons::ROLLOUT_STARTED, note);
        }
    }

    fn go_back(&mut self, why: &str) {
        let state = &mut self.state;
        state.failed.clone_from(&state.target);
        state.phase = Some(RollingBack);
        let version = |it: &Option<String>| short(it.as_deref().unwrap_or_default()).to_owned();
        let note = format!(
            "all clusters go back from version {} to {}: {why}",
            version(&state.target),
            version(&state.stable)
        );
        self.warn(reasons::ROLLING_BACK, note);
    }

    pub(super) fn now(&self) -> Timestamp {
        self.view.now
    }

    /// Looks again when a time has come.
    pub(super) fn look_at(&mut self, time: Timestamp) {
        self.due = Some(self.due.map_or(time, |due| due.min(time)));
    }

    /// Takes the state one pass further, and moves who is to move.
    fn advance(&mut self) {
        let (Some(target), Some(mut phase)) = (self.state.target.clone(), self.state.phase) else {
            return;
        };
        let is_back = self.state.stable.as_ref() == Some(&target);
        if matches!(phase, Progressing | Paused) {
            let wanted = if self.spec.paused && !is_back {
                Paused
            } else {
                Progressing
            };
            if wanted != phase {
                let note = if wanted == Paused { "paused" } else { "goes on" };
                self.note(reasons::ROLLOUT_PAUSED, note.to_owned());
            }
            phase = wanted;
            self.state.phase = Some(phase);
        }
        if phase == Progressing && !is_back {
            self.wait_for_all(&target);
            let failed = self.failed(&target);
            let got = self.members.iter().filter(|it| it.is_at(&target)).count();
            self.note_failures(&failed);
            if self.spec.failure_threshold.is_less_than(failed.len(), got) {
                self.fail(failed.len());
            } else if self.current.is_ok() && !self.members.is_empty() {
                self.go_on(&target, &failed);
            }
        } else if phase == Paused {
            self.wait_for_all(&target);
        }
        self.go_back_or_stay(&target);
        self.fill();
        self.count(&target);
    }

    /// What moves at once, without waves: all that is not at the stable version, if that is where all are to be.
    fn go_back_or_stay(&mut self, target: &str) {
        let (Some(stable), Some(phase)) = (self.state.stable.clone(), self.state.phase) else {
            return;
        };
        let everyone = match phase {
            RollingBack | RolledBack | Complete => true,
            Progressing => stable == target,
            Paused | Failed => false,
        };
        if !everyone {
            return;
        }
        let is_over = matches!(phase, Complete | RolledBack);
        for member in 0..self.members.len() {
            if !self.members[member].is_at(&stable) {
                self.move_to(member, &stable);
                if is_over {
                    self.members[member].waiting = None;
                }
            }
        }
        if is_over {
            return;
        }
        self.wait_for_all(&stable);
        let failed = self.failed(&stable);
        let is_there = |member: usize| {
            self.members[member].base.is_some()
                && (!self.members[member].is_reachable
                    || failed.contains_key(&member)
                    || matches!(
                        self.stage(member, &stable),
                        Stage::Unavailable(_) | Stage::Available
                    ))
        };
        if !(0..self.members.len()).all(is_there) {
            return;
        }
        let note = format!("all clusters are back at version {}", short(&stable));
        if phase == RollingBack {
            self.state.phase = Some(RolledBack);
            self.note(reasons::ROLLED_BACK, note);
        } else {
            self.state.phase = Some(Complete);
            self.state.failed = None;
            self.note(reasons::ROLLOUT_COMPLETE, note);
        }
    }

    /// Whoever has nothing gets what is known to be good until its wave comes. A failed version stays nowhere.
    fn fill(&mut self) {
        let Some(stable) = self.state.stable.clone() else {
            return;
        };
        let gone = self
            .state
            .failed
            .clone()
            .filter(|it| self.state.target.as_ref() != Some(it));
        let progressing = self.state.phase == Some(Progressing);
        for member in &mut self.members {
            let is_bad = progressing && gone.is_some() && member.has == gone;
            if member.has.is_none() || is_bad {
                member.has = Some(stable.clone());
                member.waiting = None;
            }
        }
    }

    fn fail(&mut self, failed: usize) {
        let allowed = match self.spec.failure_threshold {
            Amount::Count(count) => count.to_string(),
            Amount::Percent(share) => format!("{share}%"),
        };
        let examples: Vec<String> = self
            .state
            .failures
            .iter()
            .filter_map(|it| Some(format!("{}: {}", it["cluster"].as_str()?, it["reason"].as_str()?)))
            .collect();
        let why = format!(
            "{failed} cluster(s) failed, {allowed} may: {}",
            examples.join("; ")
        );
        let (state, view, rollout) = (&mut self.state, self.view, self.rollout);
        state.condition(
            view,
            rollout,
            reasons::HEALTHY,
            false,
            reasons::CLUSTERS_FAILED,
            &why,
        );
        let back = self.state.stable.clone().filter(|it| self.index_of(it).is_some());
        if self.spec.rolls_back && back.is_some() {
            self.go_back(&why);
            return;
        }
        self.state.failed.clone_from(&self.state.target);
        self.state.phase = Some(Failed);
        let stays = if self.spec.rolls_back {
            "; there is no version to go back to"
        } else {
            ""
        };
        self.warn(reasons::ROLLOUT_FAILED, format!("{why}{stays}"));
    }

    /// The writes, in their order.
    fn finish(self, made: Vec<Value>, plan: &mut Plan) -> Kept {
        let Self {
            view,
            rollout,
            state,
            members,
            current,
            events,
            due,
            ..
        } = self;
        for object in made {
            plan.push(Action::Create {
                resource: api::kubernetes::SECRETS,
                object,
            });
        }
        if let Some(write) = state.write(rollout) {
            plan.push(write);
        }
        let asked = [annotations::UNDO, annotations::RETRY];
        let asked = asked
            .into_iter()
            .filter(|key| meta::annotation(rollout, key).is_some());
        let answered: serde_json::Map<String, Value> =
            asked.map(|key| (key.to_owned(), Value::Null)).collect();
        if state.phase.is_some() && !answered.is_empty() {
            let patch = json!({"metadata": {"annotations": answered}});
            plan.push(Action::patch(&rollouts::ROLLOUTS, rollout, patch));
        }
        for member in &members {
            if let Some(write) = member.correction() {
                plan.push(write);
            }
        }
        for event in events {
            plan.push(event);
        }
        if let Some(due) = due {
            let left = due.duration_since(view.now);
            plan.next = Next::Again(Duration::try_from(left).unwrap_or_default());
        } else if let Err(why) = &current {
            plan.next = Next::Blocked(why.clone());
        }
        let named = [&state.target, &state.stable, &state.previous, &state.failed];
        let mut kept = Kept::default();
        kept.versions.extend(named.into_iter().flatten().cloned());
        kept.versions
            .extend(members.iter().filter_map(|it| it.has.clone()));
        // Bases of clusters that are bound no more stay as they are.
        let bound: BTreeSet<&str> = members
            .iter()
            .filter_map(|it| Some(meta::uid(it.base.as_ref()?)))
            .collect();
        let others = view.bases.iter().filter(|it| !bound.contains(meta::uid(it)));
        let others = others.filter_map(|it| meta::annotation(it, annotations::VERSION));
        kept.versions.extend(others.map(str::to_owned));
        if let Ok(current) = &current {
            kept.secrets.extend(current.index().secret_names(current.name()));
        }
        kept
    }
}

/// Whether a phase is one that a Rollout stays in until somebody does something.
pub fn is_final(phase: RolloutPhase) -> bool {
    match phase {
        Complete | Failed | RolledBack => true,
        Progressing | Paused | RollingBack => false,
    }
}

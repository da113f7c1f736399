//! The waves of a pass: who is in which, who moves, and what came of it.

use std::collections::BTreeMap;

use api::reasons;
use api::rollouts::RolloutPhase::{Complete, Paused, Progressing};
use jiff::Timestamp;
use serde_json::json;

use super::member::{Member, Stage};
use super::pass::Pass;
use super::short;
use super::spec::{Choice, Wave};
use super::state::{Counts, WaveState};

/// How many clusters that failed are named.
const EXAMPLES: usize = 10;

/// Which members are in which wave. One without members is left out if it is the implicit last.
pub(super) fn memberships(waves: &[Wave], members: &[Member], target: &str) -> Vec<(String, Vec<usize>)> {
    // Those that have the target already come first, so that nobody who joins takes their places.
    let mut left: Vec<usize> = (0..members.len()).collect();
    left.sort_by_key(|place| !members[*place].is_at(target));
    let mut found = Vec::new();
    for wave in waves {
        let (mut taken, rest): (Vec<usize>, Vec<usize>) = left
            .iter()
            .partition(|place| wave.takes(&members[**place].cluster));
        left = rest;
        match wave.choice {
            Choice::Amount(amount) => {
                let many = amount.of(members.len()).min(taken.len());
                left.splice(0..0, taken.split_off(many));
            }
            Choice::Rest if taken.is_empty() && !found.is_empty() => continue,
            Choice::Selector(_) | Choice::Rest => {}
        }
        taken.sort_unstable();
        found.push((wave.name.clone(), taken));
    }
    found
}

impl Pass<'_> {
    pub(super) fn memberships(&self) -> Vec<(String, Vec<usize>)> {
        let target = self.state.target.as_deref().unwrap_or_default();
        memberships(&self.spec.waves, &self.members, target)
    }

    /// How far a member is with a version.
    pub(super) fn stage(&self, member: usize, version: &str) -> Stage {
        if !self.members[member].is_at(version) {
            return Stage::Coming(String::new());
        }
        let known = self.judged.get(version).map(|stages| stages[member].clone());
        known.unwrap_or_else(|| Stage::Coming("the version cannot be read".to_owned()))
    }

    /// From when a member counts as failed; `None` if it is not waited for.
    fn deadline(&self, member: usize) -> Option<Timestamp> {
        let waiting = self.members[member].waiting?;
        let since = self.state.started.map_or(waiting, |started| started.max(waiting));
        since.checked_add(self.spec.progress_deadline).ok()
    }

    /// Moves a member to a version, in the plan's eyes.
    pub(super) fn move_to(&mut self, member: usize, version: &str) {
        self.members[member].has = Some(version.to_owned());
        self.members[member].waiting = None;
        self.wait_for(member, version);
    }

    /// Notes since when a member is waited for, and that it is not.
    fn wait_for(&mut self, member: usize, version: &str) {
        let waits = self.members[member].is_reachable && self.stage(member, version) != Stage::Available;
        let now = self.now();
        let waiting = &mut self.members[member].waiting;
        *waiting = waits.then(|| waiting.unwrap_or(now));
    }

    /// The members that failed with a version, and why.
    pub(super) fn failed(&self, version: &str) -> BTreeMap<usize, String> {
        let late = |member: &usize| {
            self.members[*member].is_at(version)
                && self.members[*member].is_reachable
                && self
                    .deadline(*member)
                    .is_some_and(|deadline| deadline <= self.now())
        };
        (0..self.members.len())
            .filter(late)
            .filter_map(|member| match self.stage(member, version) {
                Stage::Available => None,
                Stage::Coming(why) | Stage::Unavailable(why) => Some((member, why)),
            })
            .collect()
    }

    pub(super) fn wait_for_all(&mut self, version: &str) {
        for member in 0..self.members.len() {
            if self.members[member].is_at(version) {
                self.wait_for(member, version);
            }
        }
        let deadlines: Vec<Timestamp> = (0..self.members.len())
            .filter(|member| self.members[*member].is_at(version))
            .filter_map(|member| self.deadline(member))
            .filter(|deadline| *deadline > self.now())
            .collect();
        deadlines.into_iter().for_each(|it| self.look_at(it));
    }

    pub(super) fn note_failures(&mut self, failed: &BTreeMap<usize, String>) {
        let examples = failed.iter().take(EXAMPLES);
        self.state.failures = examples
            .map(|(member, why)| json!({"cluster": self.members[*member].name(), "reason": why}))
            .collect();
        for (name, members) in &self.waves {
            if let Some(wave) = self.state.waves.iter_mut().find(|it| it.name == *name) {
                wave.counts.failed = members.iter().filter(|it| failed.contains_key(it)).count();
            }
        }
    }

    /// Wave by wave.
    pub(super) fn go_on(&mut self, target: &str, failed: &BTreeMap<usize, String>) {
        let waves = std::mem::take(&mut self.waves);
        self.state.waves = waves
            .iter()
            .map(|(name, _)| {
                let known = self.state.waves.iter().find(|it| it.name == *name);
                known.cloned().unwrap_or_else(|| WaveState {
                    name: name.clone(),
                    ..WaveState::default()
                })
            })
            .collect();
        let mut is_through = true;
        for (place, (name, members)) in waves.iter().enumerate() {
            self.state.current_wave = Some(place + 1);
            if self.state.waves[place].started.is_none() {
                self.state.waves[place].started = Some(self.now());
                self.state.waves[place].completed = None;
                if members.is_empty() {
                    let note = format!("wave {name}: no cluster is in it, and so it is through at once");
                    self.warn(reasons::WAVE_STARTED, note);
                } else {
                    let note = format!("wave {name}: {} cluster(s)", members.len());
                    self.note(reasons::WAVE_STARTED, note);
                }
            }
            self.move_wave(members, target, failed);
            if self.state.waves[place].completed.is_some() {
                continue;
            }
            if !self.is_completed(place, members, target, failed) {
                is_through = false;
                break;
            }
            self.state.waves[place].completed = Some(self.now());
            self.note(reasons::WAVE_COMPLETED, format!("wave {name} is through"));
        }
        if is_through {
            let state = &mut self.state;
            let before = state.stable.replace(target.to_owned());
            if before.is_some() {
                state.previous = before;
            }
            state.failed = None;
            state.phase = Some(Complete);
            let note = format!("version {} is through all waves", short(target));
            self.note(reasons::ROLLOUT_COMPLETE, note);
        }
        self.waves = waves;
    }

    /// Moves as many members of a wave as may be on their way at a time.
    fn move_wave(&mut self, members: &[usize], target: &str, failed: &BTreeMap<usize, String>) {
        let limit = self
            .spec
            .max_concurrent
            .map_or(usize::MAX, |it| it.of(members.len()));
        let on_the_way = |member: &&usize| {
            self.members[**member].is_at(target)
                && self.members[**member].is_reachable
                && !failed.contains_key(*member)
                && self.stage(**member, target) != Stage::Available
        };
        let mut on_the_way = members.iter().filter(on_the_way).count();
        for member in members {
            let it = &self.members[*member];
            if it.is_at(target) || !it.is_reachable || it.base.is_none() {
                continue;
            }
            if on_the_way >= limit {
                break;
            }
            self.move_to(*member, target);
            if self.stage(*member, target) != Stage::Available {
                on_the_way += 1;
            }
        }
    }

    /// Whether a wave is through: all of it available for long enough, but for what failed and may, and for what cannot
    /// be reached and was waited for.
    fn is_completed(
        &mut self,
        place: usize,
        members: &[usize],
        target: &str,
        failed: &BTreeMap<usize, String>,
    ) -> bool {
        if members.is_empty() {
            return true;
        }
        let started = self.state.waves[place].started.unwrap_or(self.now());
        let patience = started
            .checked_add(self.spec.progress_deadline)
            .unwrap_or(Timestamp::MAX);
        let (mut settled, mut lost) = (true, false);
        for member in members {
            if !self.members[*member].is_reachable {
                lost = true;
            } else if !failed.contains_key(member) {
                settled &= self.stage(*member, target) == Stage::Available;
            }
        }
        if lost && patience > self.now() {
            self.look_at(patience);
            settled = false;
        }
        let now = self.now();
        let since = &mut self.state.waves[place].available_since;
        if !settled {
            *since = None;
            return false;
        }
        let since = *since.get_or_insert(now);
        let until = since
            .checked_add(self.spec.success_time)
            .unwrap_or(Timestamp::MAX);
        if until > now {
            self.look_at(until);
            return false;
        }
        true
    }

    /// The numbers of the status.
    pub(super) fn count(&mut self, target: &str) {
        let stages: Vec<Option<Stage>> = (0..self.members.len())
            .map(|member| {
                self.members[member]
                    .is_at(target)
                    .then(|| self.stage(member, target))
            })
            .collect();
        let phase = self.state.phase;
        let is_judged = matches!(phase, Some(Progressing | Paused));
        let failed = if is_judged {
            self.failed(target)
        } else {
            BTreeMap::new()
        };
        let old = std::mem::take(&mut self.state.waves);
        // Whoever was moved may have changed places.
        self.waves = self.memberships();
        let mut updated = 0;
        self.state.waves = self
            .waves
            .iter()
            .map(|(name, members)| {
                let known = old.iter().find(|it| it.name == *name);
                let mut wave = known.cloned().unwrap_or_else(|| WaveState {
                    name: name.clone(),
                    ..WaveState::default()
                });
                let before = wave.counts.failed;
                wave.counts = Counts {
                    clusters: members.len(),
                    // How many failed stays as it was when that was judged.
                    failed: if is_judged { 0 } else { before },
                    ..Counts::default()
                };
                for member in members {
                    let counts = &mut wave.counts;
                    counts.unreachable += usize::from(!self.members[*member].is_reachable);
                    counts.failed += usize::from(failed.contains_key(member));
                    match stages[*member] {
                        Some(Stage::Available) => {
                            counts.updated += 1;
                            counts.available += 1;
                        }
                        Some(Stage::Unavailable(_)) => counts.updated += 1,
                        Some(Stage::Coming(_)) | None => {}
                    }
                }
                updated += wave.counts.updated;
                wave
            })
            .collect();
        self.state.updated = Some((updated, self.members.len()));
        let all = self.waves.len();
        let is_everyone = self.state.stable.as_deref() == Some(target);
        self.state.current_wave = if is_everyone {
            Some(all)
        } else {
            Some(self.state.current_wave.unwrap_or(1).min(all))
        };
    }
}

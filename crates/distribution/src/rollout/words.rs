//! What a pass says: the conditions.

use api::reasons;
use api::rollouts::RolloutPhase::{Complete, Failed, Paused, Progressing, RolledBack, RollingBack};

use super::pass::Pass;
use super::short;

impl Pass<'_> {
    /// The conditions.
    pub(super) fn tell(&mut self) {
        let (view, rollout) = (self.view, self.rollout);
        let blocked = self.current.as_ref().err().cloned();
        let (holds, reason, message) = self.progress();
        if let Some(why) = blocked {
            if self.state.message(reasons::PROGRESSING) != why {
                self.warn(reasons::ROLLOUT_BLOCKED, why.clone());
            }
            let state = &mut self.state;
            state.condition(
                view,
                rollout,
                reasons::PROGRESSING,
                false,
                reasons::ROLLOUT_BLOCKED,
                &why,
            );
        } else {
            self.state
                .condition(view, rollout, reasons::PROGRESSING, holds, reason, &message);
        }
        let judged = matches!(self.state.phase, None | Some(Progressing | Paused | Complete));
        if judged {
            let failed: usize = self.state.waves.iter().map(|it| it.counts.failed).sum();
            let (holds, reason, message) = if failed == 0 {
                (true, reasons::AS_EXPECTED, "no cluster failed".to_owned())
            } else {
                let message = format!("{failed} cluster(s) failed, which is not more than may");
                (true, reasons::CLUSTERS_FAILED, message)
            };
            self.state
                .condition(view, rollout, reasons::HEALTHY, holds, reason, &message);
        }
    }

    /// The waves that nobody was in: nothing was tried there before the next one.
    fn without_clusters(&self) -> String {
        let waves = self.waves.iter();
        let empty: Vec<&str> = waves
            .filter(|(_, members)| members.is_empty())
            .map(|(name, _)| name.as_str())
            .collect();
        if empty.is_empty() || self.members.is_empty() {
            return String::new();
        }
        format!(" (no cluster is in {})", empty.join(", "))
    }

    fn progress(&self) -> (bool, &'static str, String) {
        let state = &self.state;
        let version = |it: &Option<String>| short(it.as_deref().unwrap_or_default()).to_owned();
        let target = version(&state.target);
        match state.phase {
            None => (
                false,
                reasons::ROLLOUT_BLOCKED,
                "the Subscription is bound to no cluster".to_owned(),
            ),
            Some(Progressing) => match state.current_wave.and_then(|it| state.waves.get(it - 1)) {
                Some(wave) => (
                    true,
                    reasons::WAVE_STARTED,
                    format!("version {target} is in wave {}", wave.name),
                ),
                None => (
                    true,
                    reasons::ROLLOUT_STARTED,
                    format!("version {target} goes out"),
                ),
            },
            Some(Paused) => (
                false,
                reasons::ROLLOUT_PAUSED,
                format!("version {target} is paused"),
            ),
            Some(Complete) => (
                false,
                reasons::ROLLOUT_COMPLETE,
                format!("version {target} is through all waves{}", self.without_clusters()),
            ),
            Some(Failed) => (
                false,
                reasons::ROLLOUT_FAILED,
                format!("version {target} failed, and all stay where they are"),
            ),
            Some(RollingBack) => (
                true,
                reasons::ROLLING_BACK,
                format!("all go back from version {target} to {}", version(&state.stable)),
            ),
            Some(RolledBack) => (
                false,
                reasons::ROLLED_BACK,
                format!("all are back from version {target} at {}", version(&state.stable)),
            ),
        }
    }
}

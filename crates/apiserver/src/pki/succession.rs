//! How one certificate authority follows another. The new one is announced beside the old one for a while, so that whoever
//! comes by in that time trusts both; then it signs, while the old one is still remembered; then the old one is
//! forgotten. Pure: what there is and the time are arguments, the files are moved next door.

use jiff::{SignedDuration, Timestamp};

use super::AUTHORITY_RENEWAL;

/// How long a new authority is announced before it signs. Who does not come by in this time loses sight of the server.
pub const ANNOUNCED: SignedDuration = SignedDuration::from_hours(30 * 24);
/// How long the old one is remembered afterwards: for certificates of clients that it signed.
pub const REMEMBERED: SignedDuration = SignedDuration::from_hours(30 * 24);

/// What there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// One authority, which ends at this time.
    Alone {
        /// When.
        ends: Timestamp,
    },
    /// One that signs, and one that will.
    Announced {
        /// Since when there is the other.
        since: Timestamp,
    },
    /// One that signs, and one that did.
    Succeeded {
        /// When the one that signs was announced.
        since: Timestamp,
    },
}

/// What happens next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A new authority is made, and trusted beside the other.
    Announce,
    /// The new one signs from now on.
    Succeed,
    /// The old one is trusted no longer.
    Forget,
}

/// The next step, and when it is time for it.
pub fn next(phase: Phase) -> (Step, Timestamp) {
    let later = |time: Timestamp, span| time.saturating_add(span).unwrap_or(Timestamp::MAX);
    match phase {
        Phase::Alone { ends } => (
            Step::Announce,
            ends.saturating_sub(AUTHORITY_RENEWAL).unwrap_or(Timestamp::MIN),
        ),
        Phase::Announced { since } => (Step::Succeed, later(since, ANNOUNCED)),
        Phase::Succeeded { since } => (Step::Forget, later(since, ANNOUNCED + REMEMBERED)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_has_its_time() {
        let at = |text: &str| -> Timestamp { format!("{text}T00:00:00Z").parse().unwrap() };
        let since = at("2026-01-01");
        for (phase, step, due) in [
            (
                Phase::Alone {
                    ends: at("2036-01-01"),
                },
                Step::Announce,
                "2034-01-01",
            ),
            (Phase::Announced { since }, Step::Succeed, "2026-01-31"),
            (Phase::Succeeded { since }, Step::Forget, "2026-03-02"),
        ] {
            assert_eq!(next(phase), (step, at(due)), "{phase:?}");
        }
    }
}

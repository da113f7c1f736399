//! Waiting for edits to come to rest: a machine without a clock.
//!
//! Who edits several things one after the other means them together. [`Settling`] keeps for each key when its edits have
//! been still for long enough. Time is a [`Duration`] since any fixed moment, handed in.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The least time after the first edit before the edits count however many follow.
const LEAST_LONGEST: Duration = Duration::from_secs(2);

/// For how long edits are waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// How long there has to be no edit. Zero waits for nothing.
    pub still: Duration,
    /// After how long the edits count even if they go on.
    pub longest: Duration,
}

impl Window {
    /// One of this stillness: two seconds at the longest, or twice the stillness if that is more.
    pub fn of(still: Duration) -> Self {
        Self {
            still,
            longest: LEAST_LONGEST.max(still * 2),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Open {
    first: Duration,
    /// When the edits count.
    due: Duration,
    /// Until when further edits count at once. After `due` only where a stream of edits was cut off: else those who act
    /// one after the other on what is due would find the next window open, again and again.
    shuts: Duration,
    /// Where the key is in [`Settling::due`], unless it was taken out.
    at: Duration,
}

/// Keys whose edits are waited for.
#[derive(Debug)]
pub struct Settling<K> {
    open: BTreeMap<K, Open>,
    /// Each key once: whoever asks for [`Self::left`] alone takes nothing out.
    due: BTreeSet<(Duration, K)>,
}

impl<K> Default for Settling<K> {
    fn default() -> Self {
        Self {
            open: BTreeMap::new(),
            due: BTreeSet::new(),
        }
    }
}

impl<K: Ord + Clone> Settling<K> {
    /// Notes an edit.
    pub fn edited(&mut self, key: K, window: Window, now: Duration) {
        let before = self.open.get(&key).copied();
        if let Some(before) = &before {
            self.due.remove(&(before.at, key.clone()));
        }
        let open = match before.filter(|open| now < open.due.max(open.shuts)) {
            Some(open) if now >= open.due => Open { at: now, ..open },
            Some(open) => Open::from(open.first, window, now),
            None => Open::from(now, window, now),
        };
        self.due.insert((open.at, key.clone()));
        self.open.insert(key, open);
    }

    /// How long a key's edits are still waited for; `None` if they are not.
    pub fn left(&self, key: &K, now: Duration) -> Option<Duration> {
        let open = self.open.get(key)?;
        open.due.checked_sub(now).filter(|left| !left.is_zero())
    }

    /// The next key whose edits count now; each time once.
    pub fn pop(&mut self, now: Duration) -> Option<K> {
        let (at, key) = self.due.first().filter(|(at, _)| *at <= now)?.clone();
        self.due.remove(&(at, key.clone()));
        if self.open.get(&key).is_some_and(|open| now >= open.shuts) {
            self.open.remove(&key);
        }
        Some(key)
    }

    /// When [`Self::pop`] has the next one.
    pub fn next_due(&self) -> Option<Duration> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Forgets a key.
    pub fn forget(&mut self, key: &K) {
        if let Some(open) = self.open.remove(key) {
            self.due.remove(&(open.at, key.clone()));
        }
    }
}

impl Open {
    fn from(first: Duration, window: Window, now: Duration) -> Self {
        let (quiet, last) = (now + window.still, first + window.longest);
        let due = quiet.min(last);
        let shuts = if last < quiet { due + window.still } else { due };
        Self {
            first,
            due,
            shuts,
            at: due,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// When edits at these times count.
    fn counted(still: u64, edits: &[u64]) -> Vec<u64> {
        let mut settling = Settling::default();
        let (mut counted, mut edits) = (Vec::new(), edits.iter().copied().peekable());
        for now in 0..20_000 {
            while settling.pop(ms(now)).is_some() {
                assert_eq!(settling.left(&"a", ms(now)), None, "{now}");
                counted.push(now);
            }
            while edits.next_if_eq(&now).is_some() {
                settling.edited("a", Window::of(ms(still)), ms(now));
            }
        }
        assert_eq!(settling.next_due(), None);
        counted
    }

    #[test]
    fn edits_count_once_they_are_still() {
        let stream: Vec<u64> = (0..60).map(|n| n * 100).collect();
        for (case, still, edits, expected) in [
            ("one", 250, &[10][..], &[260][..]),
            ("two together", 250, &[10, 20], &[270]),
            ("two apart", 250, &[10, 300], &[260, 550]),
            (
                "soon after the end of a window",
                250,
                &[10, 270, 280],
                &[260, 530],
            ),
            ("no wait", 0, &[10, 20], &[11, 21]),
            (
                "twice the stillness is the longest",
                3_000,
                &[0, 2_900, 5_800],
                &[6_000],
            ),
        ] {
            assert_eq!(counted(still, edits), expected, "{case}");
        }
        let got = counted(250, &stream);
        assert_eq!(got[0], 2_000, "a stream of edits does not starve");
        assert!(got.windows(2).all(|pair| pair[1] - pair[0] <= 2_300), "{got:?}");
        assert!(
            got.last().is_some_and(|last| *last > 5_900),
            "the last edit counts: {got:?}"
        );
    }

    #[test]
    fn says_how_long_it_waits() {
        let mut settling = Settling::default();
        assert_eq!(settling.left(&"a", ms(0)), None);
        settling.edited("a", Window::of(ms(250)), ms(0));
        assert_eq!(settling.left(&"a", ms(100)), Some(ms(150)));
        settling.edited("a", Window::of(ms(250)), ms(100));
        assert_eq!(settling.left(&"a", ms(100)), Some(ms(250)));
        assert_eq!(settling.left(&"a", ms(350)), None);
        assert_eq!(settling.left(&"b", ms(100)), None, "nobody edited it");
        settling.forget(&"a");
        assert_eq!((settling.left(&"a", ms(100)), settling.next_due()), (None, None));
    }

    /// Who only asks how long to wait leaves nothing behind, however many edits there are.
    #[test]
    fn a_key_is_due_once() {
        let mut settling = Settling::default();
        for now in [0, 100, 5_000, 5_100, 9_000]
            .into_iter()
            .chain((10_000..14_000).step_by(100))
        {
            settling.edited("a", Window::of(ms(250)), ms(now));
            assert_eq!((settling.open.len(), settling.due.len()), (1, 1), "{now}");
        }
        settling.forget(&"a");
        assert!(settling.open.is_empty() && settling.due.is_empty());
    }

    /// Several that act on the end of one window all find it ended, though edits go on.
    #[test]
    fn whoever_acts_on_a_stream_of_edits_finds_the_window_ended() {
        let mut settling = Settling::default();
        for now in (0..=2_100).step_by(100) {
            settling.edited("a", Window::of(ms(250)), ms(now));
        }
        assert_eq!(settling.left(&"a", ms(2_150)), None);
        settling.edited("a", Window::of(ms(250)), ms(2_300));
        assert_eq!(settling.left(&"a", ms(2_310)), Some(ms(240)), "the next window");
    }
}

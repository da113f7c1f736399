//! What to decide next: a queue with priorities and back-off, as a machine without a clock.
//!
//! Time is a [`Duration`] since any fixed moment, handed in by the shell. An item is in at most one place: waiting
//! in the active heap, waiting out its back-off, or in nobody's hands after it was popped.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::time::Duration;

/// The first delay of an item that failed.
pub const FIRST_DELAY: Duration = Duration::from_secs(1);
/// The longest delay of an item that keeps failing.
pub const LONGEST_DELAY: Duration = Duration::from_secs(10);

/// An item that was popped: hand it back with [`Queue::failed`], or drop it when it is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item<K> {
    /// What it is about.
    pub key: K,
    /// Larger goes first.
    pub priority: i32,
    /// How many times it was popped without success before this one.
    pub attempts: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In the active heap since this time.
    Active { since: Duration, sequence: u64 },
    /// Waiting out its back-off until this time.
    Waiting { until: Duration },
}

#[derive(Debug)]
struct Entry {
    priority: i32,
    attempts: u32,
    place: Place,
}

/// A queue ordered by priority (larger first), then by the time of arrival.
#[derive(Debug)]
pub struct Queue<K> {
    entries: BTreeMap<K, Entry>,
    /// (inverted priority, arrival, sequence, key).
    active: BTreeSet<(i64, Duration, u64, K)>,
    waiting: BTreeSet<(Duration, K)>,
    sequence: u64,
}

impl<K> Default for Queue<K> {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
            active: BTreeSet::new(),
            waiting: BTreeSet::new(),
            sequence: 0,
        }
    }
}

impl<K: Ord + Clone> Queue<K> {
    /// Adds an item; one that is here already keeps its place in time and takes the new priority.
    pub fn add(&mut self, key: K, priority: i32, now: Duration) {
        match self.remove(&key) {
            // What merely waits to be looked at again has not failed: there is a reason to look now.
            Some(entry) if entry.attempts > 0 || matches!(entry.place, Place::Active { .. }) => {
                self.insert(key, Entry { priority, ..entry });
            }
            Some(_) | None => {
                let place = self.active_from(now);
                self.insert(
                    key,
                    Entry {
                        priority,
                        attempts: 0,
                        place,
                    },
                );
            }
        }
    }

    /// Takes an item out, wherever it waits.
    pub fn delete(&mut self, key: &K) {
        self.remove(key);
    }

    /// Puts a popped item back, to come out again after its back-off: 1 s, doubled per attempt, at most 10 s.
    ///
    /// If it was added again meanwhile, that entry takes over its attempts and its back-off.
    pub fn failed(&mut self, item: Item<K>, now: Duration) {
        let attempts = item.attempts.saturating_add(1);
        let until = now + delay(attempts);
        let priority = self
            .remove(&item.key)
            .map_or(item.priority, |entry| entry.priority);
        self.insert(
            item.key,
            Entry {
                priority,
                attempts,
                place: Place::Waiting { until },
            },
        );
    }

    /// Looks at an item again after a time, or as soon as it is added, whichever comes first. One that is here already
    /// keeps its place.
    pub fn again(&mut self, item: Item<K>, after: Duration, now: Duration) {
        if self.entries.contains_key(&item.key) {
            return;
        }
        let entry = Entry {
            priority: item.priority,
            attempts: 0,
            place: Place::Waiting { until: now + after },
        };
        self.insert(item.key, entry);
    }

    /// The next item that is due; `None` if nothing is.
    pub fn pop(&mut self, now: Duration) -> Option<Item<K>> {
        self.flush(now);
        let (_, _, _, key) = self.active.first().cloned()?;
        let entry = self.remove(&key).expect("what is active has an entry");
        Some(Item {
            key,
            priority: entry.priority,
            attempts: entry.attempts,
        })
    }

    /// When the next item will be due; `None` if nothing waits.
    pub fn next_due(&self) -> Option<Duration> {
        match self.active.first() {
            Some((_, since, _, _)) => Some(*since),
            None => self.waiting.first().map(|(until, _)| *until),
        }
    }

    /// How many items are ready, and how many wait out a back-off.
    pub fn depth(&self) -> (usize, usize) {
        (self.active.len(), self.waiting.len())
    }

    fn active_from(&mut self, since: Duration) -> Place {
        self.sequence += 1;
        Place::Active {
            since,
            sequence: self.sequence,
        }
    }

    fn flush(&mut self, now: Duration) {
        while let Some((until, key)) = self.waiting.first().cloned() {
            if until > now {
                break;
            }
            let entry = self.remove(&key).expect("what waits has an entry");
            let place = self.active_from(until);
            self.insert(key, Entry { place, ..entry });
        }
    }

    fn insert(&mut self, key: K, entry: Entry) {
        match entry.place {
            Place::Active { since, sequence } => {
                self.active
                    .insert((-i64::from(entry.priority), since, sequence, key.clone()));
            }
            Place::Waiting { until } => {
                self.waiting.insert((until, key.clone()));
            }
        }
        self.entries.insert(key, entry);
    }

    fn remove(&mut self, key: &K) -> Option<Entry> {
        let entry = self.entries.remove(key)?;
        match entry.place {
            Place::Active { since, sequence } => {
                self.active
                    .remove(&(-i64::from(entry.priority), since, sequence, key.clone()));
            }
            Place::Waiting { until } => {
                self.waiting.remove(&(until, key.clone()));
            }
        }
        Some(entry)
    }
}

fn delay(attempts: u32) -> Duration {
    let doublings = attempts.saturating_sub(1).min(16);
    (FIRST_DELAY * (1 << doublings)).min(LONGEST_DELAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn pop(queue: &mut Queue<&'static str>, seconds: u64) -> Option<Item<&'static str>> {
        queue.pop(at(seconds))
    }

    #[test]
    fn pops_by_priority_then_by_arrival() {
        let mut queue = Queue::default();
        for (index, (key, priority)) in [("a", 0), ("b", 1_000), ("c", 100), ("d", 100)]
            .into_iter()
            .enumerate()
        {
            queue.add(key, priority, at(index as u64));
        }
        let order: Vec<i32> = std::iter::from_fn(|| pop(&mut queue, 9))
            .map(|item| item.priority)
            .collect();
        assert_eq!(order, [1_000, 100, 100, 0], "Q9");
    }

    #[test]
    fn makes_a_failed_item_wait_ever_longer() {
        let mut queue = Queue::default();
        queue.add("a", 0, at(0));
        let mut now = 0;
        let mut waits = Vec::new();
        for attempt in 0..6 {
            let item = pop(&mut queue, now).unwrap();
            assert_eq!(item.attempts, attempt, "Q10");
            queue.failed(item, at(now));
            assert_eq!(queue.depth(), (0, 1));
            assert_eq!(pop(&mut queue, now), None);
            let due = queue.next_due().unwrap().as_secs();
            waits.push(due - now);
            now = due;
        }
        assert_eq!(waits, [1, 2, 4, 8, 10, 10]);
    }

    #[test]
    fn looks_again_after_a_time_or_when_there_is_a_reason() {
        let mut queue = Queue::default();
        queue.add("a", 0, at(0));
        let item = pop(&mut queue, 0).unwrap();
        queue.again(item, at(30), at(0));
        assert_eq!((pop(&mut queue, 29), queue.next_due()), (None, Some(at(30))));
        let item = pop(&mut queue, 30).unwrap();
        assert_eq!(item.attempts, 0, "it has not failed");
        queue.again(item, at(30), at(30));
        queue.add("a", 0, at(31));
        let item = pop(&mut queue, 31).unwrap();
        queue.failed(item.clone(), at(31));
        queue.again(item, at(30), at(31));
        assert_eq!(queue.next_due(), Some(at(32)), "a back-off is not made longer");
    }

    #[test]
    fn refreshes_in_place_and_deletes() {
        let mut queue = Queue::default();
        queue.add("a", 0, at(0));
        queue.add("b", 0, at(1));
        queue.add("a", 0, at(2));
        assert_eq!(
            pop(&mut queue, 3).unwrap().key,
            "a",
            "an update does not send an item to the end"
        );
        queue.add("c", 5, at(3));
        queue.delete(&"c");
        assert_eq!(pop(&mut queue, 3).unwrap().key, "b");
        assert_eq!(pop(&mut queue, 3), None);
        assert_eq!(queue.next_due(), None);
    }
}

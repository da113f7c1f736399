//! The plugin DynamicAssigner: replicas go where there is room, and stay where they are.
//!
//! Only the difference to what is wanted is divided: more replicas by the clusters' room, fewer by what each has. So a
//! cluster never loses replicas because another one has come.
//! What a silent cluster has counts as missing, but is taken away only as far as it finds room elsewhere.

use std::collections::{BTreeMap, BTreeSet};

use crate::divide;
use crate::model::{ClusterKey, Inventory};
use crate::shares::Shares;

/// What came of a division.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assigned<'a> {
    /// Who has what from now on.
    pub shares: Shares<'a>,
    /// For each feed key how many replicas found no room; none where all did.
    pub short: BTreeMap<String, u32>,
}

/// Whether any feed wants more replicas than it has: only then does it matter how much room there is.
pub fn needs_room(held: &Shares<'_>, inventory: &Inventory) -> bool {
    let lacks = |feed: &crate::model::Wanted| missing(held, &feed.feed.key(), feed.desired) > 0;
    inventory.feeds.iter().any(lacks)
}

fn missing(held: &Shares<'_>, feed: &str, desired: Option<u32>) -> i64 {
    desired.map_or(0, |desired| i64::from(desired) - held.total(feed))
}

/// What each cluster has of a feed.
fn present(shares: &Shares<'_>, feed: &str) -> Vec<u32> {
    let number = |n: &i64| u32::try_from(*n).unwrap_or(0);
    shares.of(feed).into_iter().flatten().map(number).collect()
}

/// A cluster that missing replicas can go to, and its room; what is not known is none.
pub type Candidate<'a> = (&'a ClusterKey, &'a [Option<u32>]);

/// Divides what is missing among the candidates, and takes away what is too much.
///
/// `held` is what clusters have and keep. Candidates come in the order of their keys.
pub fn assign<'a>(held: Shares<'a>, inventory: &Inventory, candidates: &[Candidate<'a>]) -> Assigned<'a> {
    let keys: Vec<&ClusterKey> = candidates.iter().map(|(key, _)| *key).collect();
    let is_new = held.clusters().is_empty();
    let mut shares = held;
    let mut short = BTreeMap::new();
    for (index, wanted) in inventory.feeds.iter().enumerate() {
        let key = wanted.feed.key();
        if wanted.desired.is_none() {
            shares.add_whole(&key);
            continue;
        }
        let missing = missing(&shares, &key, wanted.desired);
        if missing > 0 || shares.of(&key).is_none() {
            let room_of = |(_, room): &Candidate<'_>| room.get(index).copied().flatten().unwrap_or(0);
            let room: Vec<u32> = candidates.iter().map(room_of).collect();
            let changes = divide::by_capacity(missing, &room);
            shares.add(&key, &keys, &changes);
            let rest = missing - changes.iter().sum::<i64>();
            if let Some(rest) = u32::try_from(rest).ok().filter(|rest| *rest > 0) {
                short.insert(key, rest);
            }
        } else if missing < 0 {
            let present = present(&shares, &key);
            let clusters = shares.clusters().to_vec();
            shares.add(&key, &clusters, &divide::by_capacity(missing, &present));
        }
    }
    if is_new {
        // Whatever is not divided goes to all of them.
        shares.add_clusters(&keys);
    }
    let feeds: BTreeSet<String> = inventory.feeds.iter().map(|wanted| wanted.feed.key()).collect();
    shares.retain_feeds(|feed| feeds.contains(feed));
    Assigned { shares, short }
}

/// Leaves with silent clusters what found no room elsewhere: the last copy goes only where there is another.
pub fn leave_behind<'a>(assigned: &mut Assigned<'a>, silent: &Shares<'a>) {
    for (feed, short) in &assigned.short {
        let left = divide::by_capacity(i64::from(*short), &present(silent, feed));
        let left = silent.clusters().iter().copied().zip(left);
        let (clusters, left): (Vec<_>, Vec<_>) = left.filter(|(_, left)| *left > 0).unzip();
        assigned.shares.add(feed, &clusters, &left);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn key(name: &str) -> &'static ClusterKey {
        Box::leak(Box::new(ClusterKey::new("ns", name)))
    }

    /// `f1 8 | f2 | f3 3`: what each feed wants.
    fn inventory(text: &str) -> Inventory {
        let feed = |part: &str| {
            let (name, desired) = part.trim().split_once(' ').unwrap_or((part.trim(), ""));
            let desired: Option<u32> = desired.parse().ok();
            json!({"apiVersion": "v1", "kind": "F", "name": name, "desiredReplicas": desired})
        };
        let feeds: Vec<Value> = text.split('|').map(feed).collect();
        Inventory::from_value(&json!({"spec": {"feeds": feeds}}))
    }

    fn feed_key(name: &str) -> String {
        format!("v1/F/{name}")
    }

    /// `c1 c2 c3 | f1 1 3 0 | f2`.
    fn shares(text: &str) -> Shares<'static> {
        let mut parts = text.split('|');
        let clusters = parts.next().unwrap().split_whitespace().map(key).collect();
        let lists = parts.map(|part| {
            let mut words = part.split_whitespace();
            let feed = feed_key(words.next().unwrap());
            (feed, words.map(|word| word.parse().unwrap()).collect())
        });
        let lists = lists.collect();
        Shares::new(clusters, lists)
    }

    /// The candidates' names; for each feed the room in each of them.
    fn candidates(names: &str, rooms: &[&[u32]]) -> Vec<Candidate<'static>> {
        let room = |cluster: usize| {
            let room: Vec<Option<u32>> = rooms.iter().map(|room| room.get(cluster).copied()).collect();
            &*room.leak()
        };
        names
            .split(' ')
            .enumerate()
            .map(|(index, name)| (key(name), room(index)))
            .collect()
    }

    #[test]
    fn changes_an_existing_binding() {
        const HELD: &str = "c1 c2 c3 | f1 1 3 0 | f2 | f3 1 1 1";
        const TENS: &[u32] = &[10, 10, 10];
        let rooms: [&[u32]; 4] = [TENS, &[], &[10, 20, 30], &[]];
        let (all, moved) = ("c1 c2 c3", "c1 c2 c4");
        for (row, wanted, names, expected) in [
            (
                "D8",
                "f1 8 | f2 | f3 3",
                all,
                "c1 c2 c3 | f1 3 4 1 | f2 | f3 1 1 1",
            ),
            (
                "D9",
                "f1 8 | f2 | f3 9",
                all,
                "c1 c2 c3 | f1 3 4 1 | f2 | f3 2 3 4",
            ),
            (
                "D10",
                "f1 2 | f2 | f3 3",
                all,
                "c1 c2 c3 | f1 0 2 0 | f2 | f3 1 1 1",
            ),
            (
                "D11",
                "f1 2 | f2 | f3 1",
                all,
                "c1 c2 c3 | f1 0 2 0 | f2 | f3 0 0 1",
            ),
            (
                "D12",
                "f1 8 | f2 | f3 9",
                moved,
                "c1 c2 c3 c4 | f1 3 4 0 1 | f2 | f3 2 3 1 3",
            ),
            (
                "D13",
                "f1 8 | f2 | f3 1",
                moved,
                "c1 c2 c3 c4 | f1 3 4 0 1 | f2 | f3 0 0 1 0",
            ),
            ("D14", "f1 4 | f2 | f3 3", moved, HELD),
            (
                "D15",
                "f1 4 | f2 | f3 3 | f4",
                moved,
                "c1 c2 c3 | f1 1 3 0 | f2 | f3 1 1 1 | f4",
            ),
        ] {
            let assigned = assign(shares(HELD), &inventory(wanted), &candidates(names, &rooms));
            assert_eq!(assigned.shares, shares(expected), "{row}");
            assert_eq!(assigned.short, BTreeMap::new(), "{row}");
        }
    }

    #[test]
    fn begins_with_all_candidates() {
        let assigned = assign(
            Shares::default(),
            &inventory("f1 6 | f2 | f3 9"),
            &candidates("c1 c2", &[&[1, 2], &[], &[9, 9]]),
        );
        assert_eq!(assigned.shares, shares("c1 c2 | f1 1 2 | f2 | f3 5 4"));
        assert_eq!(assigned.short, BTreeMap::from([(feed_key("f1"), 3)]));
        let whole = assign(
            Shares::default(),
            &inventory("f1 | f2"),
            &candidates("c1 c2", &[]),
        );
        assert_eq!(
            whole.shares,
            shares("c1 c2 | f1 | f2"),
            "what is not divided needs no room"
        );
    }

    #[test]
    fn forgets_feeds_that_are_gone_and_divides_none_as_whole() {
        let assigned = assign(
            shares("c1 | f1 2 | f9 3"),
            &inventory("f1 2 | f2 0"),
            &candidates("c1", &[&[5], &[5]]),
        );
        assert_eq!(assigned.shares, shares("c1 | f1 2 | f2 0"));
        let nowhere = assign(shares("c1 | f1 2"), &inventory("f1 2 | f2 4"), &[]);
        assert_eq!(
            nowhere.shares,
            shares("c1 | f1 2 | f2 0"),
            "an empty list would send the whole count"
        );
    }

    #[test]
    fn asks_for_room_only_when_replicas_are_missing() {
        let held = shares("c1 | f1 2");
        for (wanted, expected) in [
            ("f1 2", false),
            ("f1 1", false),
            ("f1 3", true),
            ("f1 2 | f2", false),
            ("f1 2 | f2 1", true),
        ] {
            assert_eq!(needs_room(&held, &inventory(wanted)), expected, "{wanted}");
        }
    }

    proptest! {
        /// A silent cluster loses no replica that has no other place, and nobody gets more than is wanted.
        #[test]
        fn loses_no_copy_without_another(there in 0_u32..50, silent in 0_u32..50, room in 0_u32..50, desired in 0_u32..200) {
            let inventory = inventory(&format!("f1 {desired}"));
            let candidates = candidates("c1", &[&[room]]);
            let mut assigned = assign(shares(&format!("c1 | f1 {there}")), &inventory, &candidates);
            leave_behind(&mut assigned, &shares(&format!("c2 | f1 {silent}")));
            let total = assigned.shares.total(&feed_key("f1"));
            prop_assert!(total >= i64::from(desired.min(there + silent)));
            prop_assert!(total <= i64::from(desired));
        }

        /// Nobody gets more than there is room for, all that is wanted and fits is there, and doing it again changes nothing.
        #[test]
        fn places_what_fits_and_settles(
            present in proptest::collection::vec(0_i64..50, 3), room in proptest::collection::vec(0_u32..50, 3), desired in 0_u32..200
        ) {
            let held = Shares::new(["c1", "c2", "c3"].map(key).to_vec(), BTreeMap::from([(feed_key("f1"), present.clone())]));
            let before = held.total(&feed_key("f1"));
            let inventory = inventory(&format!("f1 {desired}"));
            let candidates = candidates("c1 c2 c3", &[&room]);
            let first = assign(held, &inventory, &candidates);
            let most = before + i64::from(room.iter().sum::<u32>());
            prop_assert_eq!(first.shares.total(&feed_key("f1")), i64::from(desired).min(most.max(before)));
            let full: Vec<Candidate<'_>> = candidates.iter().map(|(key, _)| (*key, [Some(0)].as_slice())).collect();
            let again = assign(first.shares.clone(), &inventory, &full);
            prop_assert_eq!(again.shares, first.shares);
        }
    }
}

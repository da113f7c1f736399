//! Replicas by cluster and feed, as a binding has them and dynamic dividing changes them.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::ClusterKey;

/// For each feed key its replicas in the order of the clusters; no list at all for a feed that is not divided.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Shares<'a> {
    clusters: Vec<&'a ClusterKey>,
    /// Each list is empty or as long as `clusters`.
    replicas: BTreeMap<String, Vec<i64>>,
}

impl<'a> Shares<'a> {
    /// From what a binding says. A list that does not fit its clusters is worth nothing: it counts as zeros.
    pub fn new(clusters: Vec<&'a ClusterKey>, mut replicas: BTreeMap<String, Vec<i64>>) -> Self {
        for list in replicas.values_mut() {
            if !list.is_empty() && list.len() != clusters.len() {
                *list = vec![0; clusters.len()];
            }
        }
        Self { clusters, replicas }
    }

    /// The clusters, in their order.
    pub fn clusters(&self) -> &[&'a ClusterKey] {
        &self.clusters
    }

    /// A feed's replicas, in the order of the clusters; `None` if nobody has divided it yet.
    pub fn of(&self, feed: &str) -> Option<&[i64]> {
        self.replicas.get(feed).map(Vec::as_slice)
    }

    /// How many replicas a feed has everywhere.
    pub fn total(&self, feed: &str) -> i64 {
        self.of(feed).into_iter().flatten().sum()
    }

    /// Notes a feed that is not divided.
    pub fn add_whole(&mut self, feed: &str) {
        self.replicas.entry(feed.to_owned()).or_default();
    }

    /// Adds clusters that are not there yet behind the others, with no replica of anything.
    pub fn add_clusters(&mut self, clusters: &[&'a ClusterKey]) {
        if self.clusters.starts_with(clusters) {
            return;
        }
        let known: BTreeSet<&ClusterKey> = self.clusters.iter().copied().collect();
        let new = clusters.iter().filter(|it| !known.contains(**it));
        self.clusters.extend(new);
        for list in self.replicas.values_mut().filter(|list| !list.is_empty()) {
            list.resize(self.clusters.len(), 0);
        }
    }

    /// Changes a feed's replicas in some clusters.
    pub fn add(&mut self, feed: &str, clusters: &[&'a ClusterKey], changes: &[i64]) {
        self.add_clusters(clusters);
        let list = self.replicas.entry(feed.to_owned()).or_default();
        list.resize(self.clusters.len(), 0);
        if self.clusters.starts_with(clusters) {
            for (share, change) in list.iter_mut().zip(changes) {
                *share = share.saturating_add(*change);
            }
            return;
        }
        let place: BTreeMap<&ClusterKey, usize> = self.clusters.iter().copied().zip(0..).collect();
        for (cluster, change) in clusters.iter().zip(changes) {
            let share = &mut list[place[cluster]];
            *share = share.saturating_add(*change);
        }
    }

    /// Leaves out the feeds that do not satisfy a condition.
    pub fn retain_feeds(&mut self, keep: impl Fn(&str) -> bool) {
        self.replicas.retain(|feed, _| keep(feed));
    }

    /// The clusters, and for each feed its replicas; none is less than zero.
    pub fn into_parts(self) -> (Vec<&'a ClusterKey>, BTreeMap<String, Vec<u32>>) {
        let number = |n: i64| u32::try_from(n.max(0)).unwrap_or(u32::MAX);
        let lists = self.replicas.into_iter();
        let replicas = lists.map(|(feed, list)| (feed, list.into_iter().map(number).collect()));
        (self.clusters, replicas.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(clusters: &str) -> Vec<&'static ClusterKey> {
        let names = clusters.split_whitespace();
        names
            .map(|name| &*Box::leak(Box::new(ClusterKey::new("ns", name))))
            .collect()
    }

    /// `c1 c2 | f1 1 2 | f2`.
    fn shares(text: &str) -> Shares<'static> {
        let mut parts = text.split('|');
        let clusters = keys(parts.next().unwrap());
        let replicas = parts.map(|part| {
            let mut words = part.split_whitespace();
            let feed = words.next().unwrap().to_owned();
            (feed, words.map(|word| word.parse().unwrap()).collect())
        });
        let replicas = replicas.collect();
        Shares::new(clusters, replicas)
    }

    fn merged(base: &str, added: &str) -> Shares<'static> {
        let (mut base, added) = (shares(base), shares(added));
        for (feed, list) in &added.replicas {
            if list.is_empty() {
                base.add_whole(feed);
            } else {
                base.add(feed, &added.clusters, list);
            }
        }
        base
    }

    #[test]
    fn merges_into_a_binding() {
        const A: &str = "c1 c2 c3 | f1 1 2 3 | f2 | f3 1 0 1";
        const B: &str = "c1 c2 c3 | f1 1 2 3 | f2 | f3 1 0 3";
        for (row, base, added, expected) in [
            (
                "M1",
                A,
                "c2 c3 | f1 1 2 | f3 1 0",
                "c1 c2 c3 | f1 1 3 5 | f2 | f3 1 1 1",
            ),
            (
                "M2",
                A,
                "c2 c4 | f1 1 2 | f3 1 2",
                "c1 c2 c3 c4 | f1 1 3 3 2 | f2 | f3 1 1 1 2",
            ),
            (
                "M3",
                A,
                "c2 c4 | f3 1 2 | f4 1 2 | f5 2 3",
                "c1 c2 c3 c4 | f1 1 2 3 0 | f2 | f3 1 1 1 2 | f4 0 1 0 2 | f5 0 2 0 3",
            ),
            (
                "M4",
                A,
                "c0 c4 | f3 1 2 | f4 1 2 | f5",
                "c1 c2 c3 c0 c4 | f1 1 2 3 0 0 | f2 | f3 1 0 1 1 2 | f4 0 0 0 1 2 | f5",
            ),
            (
                "M5",
                A,
                "c1 c3 c2 | f2 1 2 0",
                "c1 c2 c3 | f1 1 2 3 | f2 1 0 2 | f3 1 0 1",
            ),
            ("M6", "", "c1 c2 | f1 1 1 | f2 1 2", "c1 c2 | f1 1 1 | f2 1 2"),
            (
                "M7",
                B,
                "c1 c2 c3 | f1 4 4 5",
                "c1 c2 c3 | f1 5 6 8 | f2 | f3 1 0 3",
            ),
            (
                "M8",
                B,
                "c1 c2 c3 | f4 1 1 1",
                "c1 c2 c3 | f1 1 2 3 | f2 | f3 1 0 3 | f4 1 1 1",
            ),
            (
                "M9",
                B,
                "c1 c4 | f1 1 1",
                "c1 c2 c3 c4 | f1 2 2 3 1 | f2 | f3 1 0 3 0",
            ),
            (
                "M10",
                B,
                "c1 c4 | f2 1 4",
                "c1 c2 c3 c4 | f1 1 2 3 0 | f2 1 0 0 4 | f3 1 0 3 0",
            ),
            ("M11", "", "c2 c3 | f1 1 2 | f3 1 0", "c2 c3 | f1 1 2 | f3 1 0"),
        ] {
            assert_eq!(merged(base, added), shares(expected), "{row}");
        }
    }

    #[test]
    fn a_list_that_does_not_fit_counts_as_zeros() {
        assert_eq!(shares("c1 c2 | f1 5"), shares("c1 c2 | f1 0 0"));
    }
}

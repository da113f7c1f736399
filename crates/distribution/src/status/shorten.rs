//! Keeps `aggregatedStatuses` small: in full while it fits, else counts and the first examples of each cause.
//!
//! Sums and `available` stay exact. Which examples are kept depends on nothing but what is to be said, so that the
//! same state is always the same text.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde_json::Value;

/// Up to here, in bytes, everything is said.
pub(super) const BUDGET: usize = 64 << 10;
/// How many clusters are named for each cause in a feed's shortened details.
const EXAMPLES: usize = 10;

/// One feed over all clusters.
pub(super) struct Entry {
    /// The feed and its summary.
    pub(super) head: Value,
    /// What is said of each cluster, and why the feed is not available there.
    pub(super) details: Vec<(Value, Option<String>)>,
}

/// How many bytes a value has as JSON.
pub(super) fn size(value: &Value) -> usize {
    value.to_string().len()
}

/// The aggregated statuses, in at most [`BUDGET`] bytes, and what is left out, if anything is.
pub(super) fn fit(entries: Vec<Entry>) -> (Value, Option<String>) {
    let heads: Vec<usize> = entries.iter().map(|entry| head_size(&entry.head)).collect();
    let details = entries.iter().flat_map(|entry| &entry.details);
    let all = heads.iter().sum::<usize>() + details.map(|(detail, _)| size(detail) + 1).sum::<usize>() + 2;
    if all <= BUDGET {
        let full = entries
            .into_iter()
            .map(|entry| with_details(entry.head, entry.details.into_iter().map(|(detail, _)| detail)));
        return (full.collect(), None);
    }
    let kept = kept_feeds(&entries, &heads);
    let mut room = BUDGET - 2 - kept.iter().map(|index| heads[*index]).sum::<usize>();
    let mut said = BTreeMap::new();
    // Those that are not available share the room, and leave the others what they do not need.
    let (well, broken): (Vec<usize>, Vec<usize>) =
        kept.iter().partition(|index| is_available(&entries[**index]));
    for feeds in [broken, well] {
        for (done, index) in feeds.iter().enumerate() {
            let (examples, bytes) = examples(&entries[*index].details, room / (feeds.len() - done));
            room -= bytes;
            said.insert(*index, examples);
        }
    }
    let (total, feeds) = (
        entries.iter().map(|entry| entry.details.len()).sum::<usize>(),
        entries.len(),
    );
    let named = said.values().map(Vec::len).sum::<usize>();
    let mut short = Vec::new();
    for (index, mut entry) in entries.into_iter().enumerate() {
        if let Some(examples) = said.get(&index) {
            let take = |index: &usize| std::mem::take(&mut entry.details[*index].0);
            short.push(with_details(entry.head, examples.iter().map(take)));
        }
    }
    let what = format!(
        "the details show the first examples of each cause, {named} of {total} in all, and {} of {feeds} \
         feed(s); sums are of all clusters",
        said.len()
    );
    (Value::Array(short), Some(what))
}

fn with_details(mut head: Value, details: impl Iterator<Item = Value>) -> Value {
    head["feedStatusDetails"] = details.collect();
    head
}

fn is_available(entry: &Entry) -> bool {
    entry.head["feedStatusSummary"]["available"] == true
}

/// With an empty list of details and a comma.
fn head_size(head: &Value) -> usize {
    size(head) + r#","feedStatusDetails":[],"#.len()
}

/// The feeds that are named at all, sorted: as many as half of the room takes, those that are not available first.
fn kept_feeds(entries: &[Entry], heads: &[usize]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..entries.len()).collect();
    order.sort_by_key(|index| is_available(&entries[*index]));
    let mut room = BUDGET / 2;
    let mut kept = Vec::new();
    for index in order {
        if heads[index] <= room {
            room -= heads[index];
            kept.push(index);
        }
    }
    kept.sort_unstable();
    kept
}

/// Which details are kept in so many bytes, sorted, and how many bytes they have: the first of each cause, then the
/// second of each, and so on. The most frequent cause is the first; that a feed is available comes last.
fn examples(details: &[(Value, Option<String>)], room: usize) -> (Vec<usize>, usize) {
    let mut causes: BTreeMap<Option<&str>, Vec<usize>> = BTreeMap::new();
    for (index, (_, why)) in details.iter().enumerate() {
        causes.entry(why.as_deref()).or_default().push(index);
    }
    let mut causes: Vec<(Option<&str>, Vec<usize>)> = causes.into_iter().collect();
    causes.sort_by_key(|(why, indexes)| (why.is_none(), Reverse(indexes.len())));
    let (mut kept, mut bytes) = (Vec::new(), 0);
    for rank in 0..EXAMPLES {
        for index in causes.iter().filter_map(|(_, indexes)| indexes.get(rank)) {
            let more = size(&details[*index].0) + 1;
            if bytes + more <= room {
                bytes += more;
                kept.push(*index);
            }
        }
    }
    kept.sort_unstable();
    (kept, bytes)
}

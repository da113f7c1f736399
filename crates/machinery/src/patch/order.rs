//! The order of a merged list: what the patch names keeps the patch's order, what only the server has keeps the
//! server's, and the two are interleaved as the server had them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde_json::Value;

/// What tells items apart: a map's merge key, or the whole scalar.
pub(super) fn identity<'a>(item: &'a Value, merge_key: Option<&str>) -> Option<&'a Value> {
    match (merge_key, item) {
        (Some(key), Value::Object(map)) => map.get(key),
        (Some(_), _) => None,
        (None, item) => Some(item),
    }
}

/// Where an item stands in a list.
pub(super) fn position(list: &[Value], item: &Value, merge_key: Option<&str>) -> Option<usize> {
    let wanted = identity(item, merge_key)?;
    list.iter()
        .position(|other| identity(other, merge_key) == Some(wanted))
}

/// Where each item stands in a list; for lists in which many are looked up.
pub(super) struct Places<'a> {
    merge_key: Option<&'a str>,
    at: BTreeMap<String, usize>,
}

impl<'a> Places<'a> {
    pub(super) fn of(list: &[Value], merge_key: Option<&'a str>) -> Self {
        let mut places = Self {
            merge_key,
            at: BTreeMap::new(),
        };
        for (at, item) in list.iter().enumerate() {
            places.add(item, at);
        }
        places
    }

    /// The first place counts. False if the item has one already, or can have none.
    pub(super) fn add(&mut self, item: &Value, at: usize) -> bool {
        let Some(identity) = identity(item, self.merge_key) else {
            return false;
        };
        match self.at.entry(identity.to_string()) {
            Entry::Vacant(entry) => {
                entry.insert(at);
                true
            }
            Entry::Occupied(_) => false,
        }
    }

    pub(super) fn find(&self, item: &Value) -> Option<usize> {
        let identity = identity(item, self.merge_key)?;
        self.at.get(&identity.to_string()).copied()
    }
}

/// Orders `merged`: items in `patch_order` by that, the others by `server_order`.
pub(super) fn arrange(
    merged: Vec<Value>,
    patch_order: &[Value],
    server_order: &[Value],
    merge_key: Option<&str>,
) -> Vec<Value> {
    let patch_order = Places::of(patch_order, merge_key);
    let server_order = Places::of(server_order, merge_key);
    // With their places in the two orders.
    let mut named: Vec<(usize, Value)> = Vec::new();
    let mut server: Vec<(usize, Value)> = Vec::new();
    for item in merged {
        match patch_order.find(&item) {
            Some(at) => named.push((at, item)),
            None => {
                let at = server_order.find(&item).unwrap_or(usize::MAX);
                server.push((at, item));
            }
        }
    }
    named.sort_by_key(|(at, _)| *at);
    server.sort_by_key(|(at, _)| *at);
    let mut all = Vec::with_capacity(named.len() + server.len());
    let mut server = server.into_iter().peekable();
    for (_, item) in named {
        if let Some(here) = server_order.find(&item) {
            while let Some((_, before)) = server.next_if(|(at, _)| *at < here) {
                all.push(before);
            }
        }
        all.push(item);
    }
    all.extend(server.map(|(_, item)| item));
    all
}

//! The order of a merged list: what the patch names keeps the patch's order, what only the server has keeps the
//! server's, and the two are interleaved as the server had them.

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

/// Orders `merged`: items in `patch_order` by that, the others by `server_order`.
pub(super) fn arrange(
    merged: Vec<Value>,
    patch_order: &[Value],
    server_order: &[Value],
    merge_key: Option<&str>,
) -> Vec<Value> {
    // With their places in the two orders.
    let mut named: Vec<(usize, Value)> = Vec::new();
    let mut server: Vec<(usize, Value)> = Vec::new();
    for item in merged {
        match position(patch_order, &item, merge_key) {
            Some(at) => named.push((at, item)),
            None => {
                let at = position(server_order, &item, merge_key).unwrap_or(usize::MAX);
                server.push((at, item));
            }
        }
    }
    named.sort_by_key(|(at, _)| *at);
    server.sort_by_key(|(at, _)| *at);
    let mut all = Vec::with_capacity(named.len() + server.len());
    let mut server = server.into_iter().peekable();
    for (_, item) in named {
        if let Some(here) = position(server_order, &item, merge_key) {
            while let Some((_, before)) = server.next_if(|(at, _)| *at < here) {
                all.push(before);
            }
        }
        all.push(item);
    }
    all.extend(server.map(|(_, item)| item));
    all
}

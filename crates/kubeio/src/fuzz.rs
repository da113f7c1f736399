//! Bodies of fuzz tests: each takes any bytes and must not panic.

use crate::watch::{Lines, decode};

/// A watch stream that arrives in chunks; the first byte chooses their size.
pub fn fuzz_watch(bytes: &[u8]) {
    let Some((size, stream)) = bytes.split_first() else {
        return;
    };
    let mut lines = Lines::default();
    for chunk in stream.chunks(usize::from(*size).max(1)) {
        lines.push(chunk);
        while let Some(Ok(line)) = lines.next_line() {
            if let Ok(event) = decode(&line) {
                event.resource_version();
            }
        }
    }
}

/// An answer to discovery, in any of its forms.
pub fn fuzz_discovery(bytes: &[u8]) {
    if let Ok(value) = serde_json::from_slice(bytes) {
        crate::mapper::from_aggregated(&value);
        crate::mapper::from_resource_list(&value);
        crate::mapper::from_group_list(&value);
    }
}

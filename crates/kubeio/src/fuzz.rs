//! Bodies of fuzz tests: each takes any bytes and must not panic.

use std::path::Path;

use machinery::ApiError;
use serde_json::Value;

use crate::kubeconfig::{self, Choice, Kubeconfig};
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

/// The body of a failed answer: it can be said again, and a page that is no `Status` is cut.
pub fn fuzz_failure(bytes: &[u8]) {
    let error = ApiError::from_body(500, bytes);
    let said = serde_json::to_vec(&error.to_value()).expect("a tree of JSON can be written to memory");
    assert_eq!(ApiError::from_body(error.code, &said), error);
    let is_status = serde_json::from_slice::<Value>(bytes).is_ok_and(|value| value["kind"] == "Status");
    assert!(is_status || error.message.chars().count() <= 1_024);
}

/// Kubeconfig files, parted by lines `=====`: of the entries with one name the first counts, as does the first current
/// context; a file that is read twice changes nothing; paths are meant from the file's folder.
pub fn fuzz_kubeconfig(bytes: &[u8]) {
    let parts = bytes.split_inclusive(|byte| *byte == b'\n');
    let mut files: Vec<Vec<u8>> = vec![Vec::new()];
    for line in parts {
        if line == b"=====\n" {
            files.push(Vec::new());
        } else {
            files.last_mut().expect("there is one").extend(line);
        }
    }
    let read = |file: Vec<u8>| kubeconfig::parse(&file, Path::new("/folder")).ok();
    let files: Vec<_> = files.into_iter().filter_map(read).collect();
    let mut all = files.iter().chain(files.last()).cloned();
    let Some(first) = all.next() else {
        return;
    };
    let Ok(merged) = all.try_fold(first, kube::config::Kubeconfig::merge) else {
        return;
    };
    let current = files.iter().find_map(|file| file.current_context.clone());
    assert_eq!(merged.current_context, current);
    let entries = |config: &kube::config::Kubeconfig| -> Vec<(String, Value)> {
        let clusters = config
            .clusters
            .iter()
            .map(|entry| (&entry.name, serde_json::to_value(&entry.cluster)));
        let contexts = config
            .contexts
            .iter()
            .map(|entry| (&entry.name, serde_json::to_value(&entry.context)));
        clusters
            .map(|(name, value)| (format!("cluster {name}"), value))
            .chain(contexts.map(|(name, value)| (format!("context {name}"), value)))
            .map(|(name, value)| (name, value.expect("what was read can be written")))
            .collect()
    };
    let chosen = entries(&merged);
    for (name, _) in &chosen {
        let find = |entries: &[(String, Value)]| entries.iter().find(|entry| entry.0 == *name).cloned();
        assert_eq!(find(&chosen), files.iter().find_map(|file| find(&entries(file))));
    }
    for cluster in merged.clusters.iter().filter_map(|entry| entry.cluster.as_ref()) {
        assert!(
            cluster
                .certificate_authority
                .as_ref()
                .is_none_or(|path| path.starts_with('/'))
        );
    }
    let config = Kubeconfig(merged);
    let names = config.0.contexts.iter().map(|entry| Some(entry.name.clone()));
    for context in names.chain([None]) {
        let choice = Choice { context, user: None };
        drop(
            config
                .context(&choice)
                .and_then(|context| config.cluster(context)),
        );
    }
}

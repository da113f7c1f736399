//! The bans of crates that decide (layers 0 to 2). Clippy takes the nearest `clippy.toml` and merges none, so each of
//! them carries the workspace's bans and these.

use std::path::Path;

use anyhow::Context as _;

use crate::{shell, tidy};

/// Whose call is banned, besides what the workspace bans: why, and the paths.
const METHODS: [(&str, &[&str]); 6] = [
    (
        "time is an argument",
        &[
            "std::time::Instant::now",
            "std::time::Instant::elapsed",
            "std::time::SystemTime::elapsed",
        ],
    ),
    (
        "what decides reads no environment: the binary passes values in",
        &[
            "std::env::var",
            "std::env::var_os",
            "std::env::vars",
            "std::env::args",
            "std::env::current_dir",
            "std::env::temp_dir",
        ],
    ),
    (
        "what decides touches no files: clock::disk::Disk is for the layers above",
        &[
            "std::fs::read",
            "std::fs::read_to_string",
            "std::fs::read_dir",
            "std::fs::write",
            "std::fs::copy",
            "std::fs::rename",
            "std::fs::metadata",
            "std::fs::create_dir",
            "std::fs::create_dir_all",
            "std::fs::remove_file",
            "std::fs::remove_dir",
            "std::fs::remove_dir_all",
            "std::path::Path::exists",
            "std::path::Path::is_file",
            "std::path::Path::is_dir",
            "std::path::Path::metadata",
            "std::path::Path::read_dir",
        ],
    ),
    (
        "what decides starts no threads",
        &[
            "std::thread::spawn",
            "std::thread::scope",
            "std::thread::Builder::spawn",
        ],
    ),
    (
        "randomness is an argument: clock::Env",
        &["getrandom::fill", "getrandom::u32", "getrandom::u64"],
    ),
    (
        "its order differs from run to run: iterate a BTreeMap or BTreeSet",
        &[
            "std::collections::HashMap::iter",
            "std::collections::HashMap::iter_mut",
            "std::collections::HashMap::keys",
            "std::collections::HashMap::values",
            "std::collections::HashMap::values_mut",
            "std::collections::HashMap::into_keys",
            "std::collections::HashMap::into_values",
            "std::collections::HashMap::drain",
            "std::collections::HashMap::retain",
            "std::collections::HashSet::iter",
            "std::collections::HashSet::drain",
            "std::collections::HashSet::retain",
        ],
    ),
];

/// Which types are banned: why, and the paths.
const TYPES: [(&str, &[&str]); 3] = [
    (
        "what decides touches no files: clock::disk::Disk is for the layers above",
        &["std::fs::File", "std::fs::OpenOptions"],
    ),
    (
        "what decides opens no sockets",
        &[
            "std::net::TcpStream",
            "std::net::TcpListener",
            "std::net::UdpSocket",
            "std::os::unix::net::UnixStream",
            "std::os::unix::net::UnixListener",
            "std::os::unix::net::UnixDatagram",
        ],
    ),
    ("what decides starts no processes", &["std::process::Command"]),
];

/// Where a crate's bans lie.
pub(crate) const FILE: &str = "clippy.toml";

/// Writes the bans of each crate that decides.
pub(crate) fn write() -> anyhow::Result<()> {
    let text = text()?;
    for folder in tidy::pure_crates()? {
        let path = folder.join(FILE);
        std::fs::write(&path, &text).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

/// What is wrong with a crate's bans, if anything.
pub(crate) fn problem(folder: &Path, wanted: &str) -> Option<String> {
    let path = folder.join(FILE);
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    (found != wanted).then(|| {
        format!(
            "{} is not what the workspace's and xtask/src/lints.rs say: run `cargo xtask codegen lints`",
            path.display()
        )
    })
}

/// What the `clippy.toml` of a crate that decides says.
pub(crate) fn text() -> anyhow::Result<String> {
    let path = shell::root().join(FILE);
    let shared = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    with_bans(&shared).with_context(|| format!("{} does not end with disallowed-methods", path.display()))
}

/// The workspace's bans, which end with the methods, and these.
fn with_bans(shared: &str) -> Option<String> {
    let shared = shared.strip_suffix("]\n")?;
    let (_, methods) = shared.rsplit_once("disallowed-methods = [\n")?;
    if methods.contains('[') {
        return None;
    }
    Some(format!(
        "# Written by `cargo xtask codegen lints`: the workspace's bans and those of crates that decide.\n\
         {shared}{}]\ndisallowed-types = [\n{}]\n",
        lines(&METHODS),
        lines(&TYPES)
    ))
}

fn lines(bans: &[(&str, &[&str])]) -> String {
    bans.iter()
        .flat_map(|(reason, paths)| paths.iter().map(move |path| (path, reason)))
        .map(|(path, reason)| format!("    {{ path = \"{path}\", reason = \"{reason}\" }},\n"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bans_are_put_behind_those_of_the_workspace() {
        let text =
            with_bans("a = 1\ndisallowed-methods = [\n    { path = \"x\" },\n]\n").expect("well formed");
        let (methods, types) = text.split_once("]\ndisallowed-types = [\n").expect("two lists");
        assert!(
            methods.contains("a = 1\ndisallowed-methods = [\n    { path = \"x\" },\n    { path = \"std::")
        );
        assert!(types.contains("std::net::TcpStream") && types.ends_with("]\n"));
        assert_eq!(with_bans("a = 1\n"), None);
    }
}

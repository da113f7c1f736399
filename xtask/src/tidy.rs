//! The house rules that no compiler checks: layers, sizes, words, licences, sources, duplicates.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use serde_json::Value;

use crate::{lints, rows, shell};

/// Crates of these layers decide: they cannot do I/O because nothing in their graph can.
const PURE_LAYERS: u64 = 2;
/// What the graph of a pure crate must not hold.
const IMPURE: [&str; 7] = [
    "tokio",
    "mio",
    "socket2",
    "hyper",
    "kube",
    "kube-client",
    "reqwest",
];
/// What no graph of ours may hold, and why.
const BANNED: [(&str, &str); 3] = [
    ("ring", "one TLS provider: aws-lc-rs"),
    ("openssl", "one TLS provider: aws-lc-rs"),
    ("serde_yaml", "one YAML parser: granit-parser"),
];
/// Licences that we take, as SPDX expressions' words.
const LICENCES: [&str; 14] = [
    "MIT",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Unicode-3.0",
    "Zlib",
    "CC0-1.0",
    "0BSD",
    "Unlicense",
    "BSL-1.0",
    "OpenSSL",
    "CDLA-Permissive-2.0",
    "MIT-0",
];
/// Crates that stand in our graph in several versions: why, and what ends it.
const DUPLICATES: [(&str, &str); 3] = [
    (
        "base64",
        "k8s-openapi and tower-http are one behind; ends with their next releases",
    ),
    (
        "syn",
        "procedural macros are moving to syn 3; costs build time only",
    ),
    (
        "untrusted",
        "aws-lc-rs and rustls-webpki differ; ends when they agree",
    ),
];
const MOST_LINES: usize = 1_000;

pub(crate) fn run() -> anyhow::Result<()> {
    let graph = Graph::read()?;
    let mut problems = Vec::new();
    problems.extend(graph.layer_problems());
    problems.extend(graph.purity_problems());
    problems.extend(graph.lint_problems()?);
    problems.extend(graph.third_party_problems(&built()?));
    problems.extend(file_problems()?);
    problems.extend(map_problems(&graph)?);
    problems.extend(rows::problems()?);
    for problem in &problems {
        shell::complain(&format!("tidy: {problem}"));
    }
    if !problems.is_empty() {
        bail!("{} house rules are broken", problems.len());
    }
    Ok(())
}

/// The folders of the crates that decide.
pub(crate) fn pure_crates() -> anyhow::Result<Vec<PathBuf>> {
    let graph = Graph::read()?;
    Ok(graph.pure().map(Package::folder).collect())
}

/// `NAME VERSION` of every package that is built on some platform. `cargo metadata` also lists what a weak feature
/// names and nothing builds.
fn built() -> anyhow::Result<BTreeSet<String>> {
    let tree = shell::output(&mut shell::cargo(&[
        "tree",
        "--workspace",
        "--edges",
        "normal,build",
        "--target",
        "all",
        "--prefix",
        "none",
        "--locked",
    ]))?;
    let title = |line: &str| {
        let mut words = line.split_whitespace();
        let (name, version) = (words.next()?, words.next()?);
        Some(format!("{name} {}", version.trim_start_matches('v')))
    };
    Ok(tree.lines().filter_map(title).collect())
}

struct Package {
    name: String,
    version: String,
    licence: String,
    source: Option<String>,
    layer: Option<u64>,
    manifest: String,
    /// Ids of normal and build dependencies, as resolved.
    needs: Vec<String>,
}

impl Package {
    fn folder(&self) -> PathBuf {
        Path::new(&self.manifest)
            .parent()
            .map(Path::to_owned)
            .unwrap_or_default()
    }
}

struct Graph {
    packages: BTreeMap<String, Package>,
    ours: BTreeSet<String>,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

impl Graph {
    fn read() -> anyhow::Result<Self> {
        let metadata = shell::output(&mut shell::cargo(&[
            "metadata",
            "--format-version",
            "1",
            "--locked",
        ]))?;
        Self::new(&serde_json::from_str(&metadata)?)
    }

    fn new(metadata: &Value) -> anyhow::Result<Self> {
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let mut packages = BTreeMap::new();
        for package in list(&metadata["packages"]) {
            packages.insert(
                text(&package["id"]),
                Package {
                    name: text(&package["name"]),
                    version: text(&package["version"]),
                    licence: text(&package["license"]),
                    source: package["source"].as_str().map(ToOwned::to_owned),
                    layer: package["metadata"]["house"]["layer"].as_u64(),
                    manifest: text(&package["manifest_path"]),
                    needs: Vec::new(),
                },
            );
        }
        for node in list(&metadata["resolve"]["nodes"]) {
            let needs = list(&node["deps"])
                .iter()
                .filter(|dependency| {
                    list(&dependency["dep_kinds"])
                        .iter()
                        .any(|kind| kind["kind"] != "dev")
                })
                .map(|dependency| text(&dependency["pkg"]))
                .collect();
            let id = text(&node["id"]);
            packages
                .get_mut(&id)
                .with_context(|| format!("{id} is resolved but unknown"))?
                .needs = needs;
        }
        let ours = list(&metadata["workspace_members"]).iter().map(text).collect();
        Ok(Self { packages, ours })
    }

    fn layer_problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for package in self.ours.iter().map(|id| &self.packages[id]) {
            let Some(layer) = package.layer else {
                problems.push(format!(
                    "{} states no layer: add [package.metadata.house] layer = N",
                    package.name
                ));
                continue;
            };
            for needed in package
                .needs
                .iter()
                .filter(|id| self.ours.contains(*id))
                .map(|id| &self.packages[id])
            {
                if needed.layer.is_none_or(|lower| lower >= layer) {
                    problems.push(format!(
                        "{} (layer {layer}) depends on {} (layer {:?}): arrows point to a lower layer only",
                        package.name, needed.name, needed.layer
                    ));
                }
            }
            let manifest = std::fs::read_to_string(&package.manifest).unwrap_or_default();
            if !manifest.contains("[lints]\nworkspace = true") {
                problems.push(format!("{} does not take the workspace's lints", package.name));
            }
        }
        problems
    }

    fn closure(&self, id: &str) -> BTreeSet<&str> {
        let mut seen = BTreeSet::new();
        let mut open = vec![id];
        while let Some(id) = open.pop() {
            for needed in &self.packages[id].needs {
                if seen.insert(needed.as_str()) {
                    open.push(needed);
                }
            }
        }
        seen
    }

    /// Our crates that decide.
    fn pure(&self) -> impl Iterator<Item = &Package> {
        self.ours
            .iter()
            .map(|id| &self.packages[id])
            .filter(|package| package.layer.is_some_and(|layer| layer <= PURE_LAYERS))
    }

    fn lint_problems(&self) -> anyhow::Result<Vec<String>> {
        let wanted = lints::text()?;
        Ok(self
            .pure()
            .filter_map(|package| lints::problem(&package.folder(), &wanted))
            .collect())
    }

    fn purity_problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for id in &self.ours {
            let package = &self.packages[id];
            if package.layer.is_none_or(|layer| layer > PURE_LAYERS) {
                continue;
            }
            for needed in self.closure(id) {
                let needed = &self.packages[needed].name;
                if IMPURE.contains(&needed.as_str()) {
                    problems.push(format!("{} decides, but its graph holds {needed}", package.name));
                }
            }
        }
        problems
    }

    fn third_party_problems(&self, built: &BTreeSet<String>) -> Vec<String> {
        let mut problems = Vec::new();
        let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (_, package) in self.packages.iter().filter(|(id, _)| !self.ours.contains(*id)) {
            let title = format!("{} {}", package.name, package.version);
            if !built.contains(&title) {
                continue;
            }
            if !package
                .source
                .as_deref()
                .is_some_and(|source| source.starts_with("registry+"))
            {
                problems.push(format!("{title} does not come from the registry"));
            }
            if !licence_fits(&package.licence) {
                problems.push(format!(
                    "{title} has the licence {:?}, which is not on the list",
                    package.licence
                ));
            }
            if let Some((_, why)) = BANNED.iter().find(|(name, _)| *name == package.name) {
                problems.push(format!("{title} is in the graph: {why}"));
            }
            versions
                .entry(&package.name)
                .or_default()
                .insert(&package.version);
        }
        for (name, found) in &versions {
            if found.len() > 1 && !DUPLICATES.iter().any(|(known, _)| known == name) {
                let found: Vec<&str> = found.iter().copied().collect();
                problems.push(format!(
                    "{name} is in the graph in several versions: {}",
                    found.join(", ")
                ));
            }
        }
        for (name, _) in DUPLICATES {
            if versions.get(name).is_none_or(|found| found.len() < 2) {
                problems.push(format!(
                    "{name} is listed as a duplicate but is none any more: unlist it"
                ));
            }
        }
        problems
    }
}

/// Whether an SPDX expression can be met with listed licences only.
fn licence_fits(expression: &str) -> bool {
    let flat = expression.replace(['(', ')'], " ").replace('/', " OR ");
    !flat.trim().is_empty()
        && flat.split(" AND ").all(|part| {
            part.split(" OR ")
                .any(|word| LICENCES.contains(&word.split(" WITH ").next().unwrap_or("").trim()))
        })
}

/// Files that git tracks.
pub(crate) fn tracked() -> anyhow::Result<Vec<String>> {
    let list = shell::output(Command::new("git").args(["ls-files"]).current_dir(shell::root()))?;
    Ok(list.lines().map(ToOwned::to_owned).collect())
}

fn file_problems() -> anyhow::Result<Vec<String>> {
    let mut problems = Vec::new();
    for path in tracked()? {
        let Ok(content) = std::fs::read_to_string(shell::root().join(&path)) else {
            continue;
        };
        // What follows from our own words is spelt in pieces, so that this file passes its own rules.
        for word in [concat!("/wo", "rk/"), concat!("/ro", "ot/")] {
            if content.contains(word) {
                problems.push(format!("{path} names a path of somebody's machine: {word}"));
            }
        }
        if !path.ends_with(".rs") {
            continue;
        }
        let lines = content.lines().count();
        if lines > MOST_LINES {
            problems.push(format!(
                "{path} has {lines} lines, the limit is {MOST_LINES}: split it by idea"
            ));
        }
        for word in [
            concat!("#[ign", "ore"),
            concat!("tod", "o!("),
            concat!("unimpl", "emented!("),
        ] {
            if content.contains(word) {
                problems.push(format!("{path} contains {word}"));
            }
        }
        let is_entry = path.ends_with("/lib.rs") || path.ends_with("/main.rs");
        if is_entry && !content.trim_start().starts_with("//!") {
            problems.push(format!("{path} does not open with what it owns (//!)"));
        }
    }
    Ok(problems)
}

/// The code map must name every crate.
fn map_problems(graph: &Graph) -> anyhow::Result<Vec<String>> {
    let map = std::fs::read_to_string(shell::root().join("ARCHITECTURE.md")).context("ARCHITECTURE.md")?;
    Ok(graph
        .ours
        .iter()
        .map(|id| &graph.packages[id])
        .filter(|package| {
            let named = format!("`{}`", package.name);
            !map.contains(&named)
        })
        .map(|package| format!("ARCHITECTURE.md has no word on `{}`", package.name))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_licence_expressions() {
        for good in [
            "MIT",
            "MIT OR Apache-2.0",
            "MIT/Apache-2.0",
            "(MIT OR GPL-3.0) AND Unicode-3.0",
        ] {
            assert!(licence_fits(good), "{good}");
        }
        for bad in ["", "GPL-3.0", "MIT AND GPL-3.0", "MPL-2.0"] {
            assert!(!licence_fits(bad), "{bad}");
        }
    }
}

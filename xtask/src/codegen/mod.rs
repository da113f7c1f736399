//! Writes the tables of facts that the crates carry, each derived from what Kubernetes itself publishes.

mod builtin;
mod go;
mod protobuf;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::{lints, shell};

/// A table: its name on the command line, where it goes, and what makes it.
struct Table {
    name: &'static str,
    file: &'static str,
    make: fn() -> anyhow::Result<String>,
}

const TABLES: [Table; 3] = [
    Table {
        name: "protobuf",
        file: "crates/codec/src/protobuf/table.txt",
        make: protobuf::table,
    },
    Table {
        name: "types",
        file: "crates/machinery/src/builtin/types.txt",
        make: builtin::types,
    },
    Table {
        name: "resources",
        file: "crates/machinery/src/builtin/resources.txt",
        make: builtin::resources,
    },
];

/// Pages and tables that a crate's own test writes when it is asked to: name, variable, package.
const BY_TEST: [(&str, &str, &str); 2] = [("crds", "UPDATE_FACTS", "api"), ("cli", "UPDATE_DOCS", "tombolo")];

/// Names the `clippy.toml` of the crates that decide.
const LINTS: &str = "lints";

/// Writes one table, or all of them.
pub(crate) fn run(which: Option<&str>) -> anyhow::Result<()> {
    let names = TABLES
        .iter()
        .map(|table| table.name)
        .chain(BY_TEST.iter().map(|(name, _, _)| *name))
        .chain([LINTS]);
    let known: Vec<&str> = names.collect();
    if let Some(name) = which.filter(|name| !known.contains(name)) {
        bail!("no table is named {name:?}; there are: {}", known.join(", "));
    }
    if which.is_none_or(|wanted| wanted == LINTS) {
        lints::write()?;
    }
    for (_, variable, package) in BY_TEST
        .iter()
        .filter(|(name, _, _)| which.is_none_or(|wanted| wanted == *name))
    {
        let mut write = shell::cargo(&["test", "--quiet", "--package", package, "current"]);
        shell::run(write.env(variable, "1"))?;
    }
    for table in TABLES
        .iter()
        .filter(|table| which.is_none_or(|name| name == table.name))
    {
        let text = (table.make)().with_context(|| format!("making the table {:?}", table.name))?;
        let path = workspace().join(table.file);
        std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

/// The workspace's folder.
fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .map(Path::to_owned)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each table is what its sources say, on a machine that has the sources.
    #[test]
    fn tables_are_current() {
        let has_go = std::process::Command::new("go").arg("version").output().is_ok();
        for table in TABLES {
            let has_sources = if table.name == "protobuf" {
                has_go
            } else {
                builtin::folder().exists()
            };
            if !has_sources {
                crate::shell::say(&format!(
                    "skipped: the sources of the table {:?} are not on this machine",
                    table.name
                ));
                continue;
            }
            let made = (table.make)().expect(table.name);
            let committed = std::fs::read_to_string(workspace().join(table.file)).expect(table.file);
            assert!(
                made == committed,
                "{} is stale: run `cargo xtask codegen {}`",
                table.file,
                table.name
            );
        }
    }
}

//! The command line's page, `docs/cli.md`, written from what `--help` says.

use std::fmt::Write as _;
use std::path::Path;

use clap::CommandFactory as _;

use super::Cli;

fn page() -> String {
    let mut text = String::from(
        "# The command line\n\nGenerated from `tombolo --help` by `cargo xtask codegen cli`; do not edit.\n",
    );
    let mut root = Cli::command();
    root.build();
    for command in root.get_subcommands_mut() {
        if command.get_name() == "help" {
            continue;
        }
        let command = command
            .clone()
            .term_width(100)
            .mut_args(|argument| argument.hide_env_values(true));
        let help = command.clone().render_long_help().to_string();
        let help: Vec<&str> = help.lines().map(str::trim_end).collect();
        let _infallible = write!(
            text,
            "\n## tombolo {}\n\n```text\n{}\n```\n",
            command.get_name(),
            help.join("\n").trim_end()
        );
    }
    text
}

#[test]
fn page_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, page()).expect("the page can be written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == page(),
        "docs/cli.md is stale: run `cargo xtask codegen cli`"
    );
}

#[test]
fn the_command_line_is_sound() {
    Cli::command().debug_assert();
}

//! The command line's page, `docs/cli.md`, written from what `--help` says.

use std::fmt::Write as _;
use std::path::Path;

use clap::{CommandFactory as _, Parser as _};

use super::daemon::{IDLE, Idle};
use super::{Cli, Command, PersonCommand};

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
    text.push_str(
        "\n## Flags of upstream's daemons\n\nThe roles take these too, so that a command line goes on working; they do \
         nothing, and the log says so.\n\n| flags | of | because |\n|---|---|---|\n",
    );
    for Idle { flags, roles, why } in IDLE {
        let flags: Vec<String> = flags.iter().map(|(flag, _)| format!("`--{flag}`")).collect();
        let roles = if roles.is_empty() {
            "all roles".to_owned()
        } else {
            roles.join(", ")
        };
        let _infallible = writeln!(text, "| {} | {roles} | {why} |", flags.join(" "));
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

#[test]
fn every_command_that_talks_to_a_hub_takes_a_context() {
    let mut without = Vec::new();
    for command in Cli::command().get_subcommands() {
        let takes = |name: &str| {
            command
                .get_arguments()
                .any(|argument| argument.get_long() == Some(name))
        };
        if !(takes("kubeconfig") && takes("data-dir") && takes("context") && takes("user")) {
            without.push(command.get_name().to_owned());
        }
    }
    let known = [
        "up",
        "sim",
        "restore",
        "install",
        "crds",
        "hub",
        "scheduler",
        "controllers",
        "agent",
    ];
    assert_eq!(without, known);
}

#[test]
fn flags_may_stand_among_the_words_of_label() {
    for line in [
        "deployment web a=b c- --overwrite -n shop",
        "--overwrite deployment web -n shop a=b c-",
        "deployment -n shop web --overwrite a=b c-",
    ] {
        let words = ["tombolo", "label"].into_iter().chain(line.split(' '));
        let Command::Person(PersonCommand::Label(args)) = Cli::parse_from(words).command else {
            panic!("{line}: it is another command");
        };
        assert_eq!(args.words, ["deployment", "web", "a=b", "c-"], "{line}");
        assert!(args.overwrite, "{line}");
    }
}

#[test]
fn what_makes_no_sense_is_refused_while_it_is_read() {
    for line in [
        "get deploy -o nonsense",
        "delete deploy --all -l a=b",
        "delete deploy web -f file",
        "delete -f file --all",
        "delete",
        "join --name a --parent-url foo",
        "label",
        "plan",
    ] {
        let words = std::iter::once("tombolo").chain(line.split(' '));
        assert!(Cli::try_parse_from(words).is_err(), "{line}");
    }
}

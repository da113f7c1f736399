//! The command line: parses, starts what it names, maps the outcome to an exit code. No logic.

mod cli;
mod out;
mod recovery;
mod roles;
mod run;

use std::process::ExitCode;

use clap::Parser as _;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let (words, passed_over) = cli::read(std::env::args_os().collect());
    let cli = cli::Cli::parse_from(words);
    let (filter, format) = cli.logging();
    if let Err(error) = runtime::init_tracing(filter, format) {
        return run::complain(&anyhow::anyhow!("--log {filter:?}: {error}"), 2);
    }
    for cli::Passed { flag, why } in passed_over {
        tracing::warn!(flag, why, "a flag does nothing here");
    }
    match run::run(cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(run::Failure { error: None, code }) => ExitCode::from(code),
        Err(run::Failure {
            error: Some(error),
            code,
        }) => run::complain(&error, code),
    }
}

//! The command line: parses, starts what it names, maps the outcome to an exit code. No logic.

mod cli;
mod out;
mod recovery;
mod roles;
mod run;

use std::process::ExitCode;

use clap::Parser as _;
use runtime::LogFormat;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    let format = if cli.log_json {
        LogFormat::Json
    } else {
        LogFormat::Text
    };
    if let Err(error) = runtime::init_tracing(&cli.log, format) {
        return run::complain(&anyhow::anyhow!("--log {:?}: {error}", cli.log), 2);
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

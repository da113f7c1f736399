//! The one entry for developers: `cargo xtask doctor|check|test|bench|codegen|tidy`.

mod bench;
mod check;
mod codegen;
mod doctor;
mod lints;
mod realkube;
mod rows;
mod shell;
mod test;
mod tidy;

use std::process::ExitCode;

const USAGE: &str = "cargo xtask COMMAND

  doctor            what is missing on this machine
  check             formatting, lints, fast tests, house rules, docs: the inner loop
  test              everything: check, the demo, real Kubernetes, the small simulation with fresh seeds
  bench [NAME]      measures against etcd + kube-apiserver and a null server in one run
  codegen [NAME]    derives tables from ../shared and from Go modules, the CRDs, the command line's page and the
                    lints of crates that decide
  tidy              the house rules alone
  realkube DIR      builds the pinned Kubernetes binaries into DIR/bin
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["doctor"] => doctor::run(),
        ["check"] => check::run(),
        ["test"] => test::run(),
        ["bench", rest @ ..] => bench::run(rest),
        ["codegen"] => codegen::run(None),
        ["codegen", name] => codegen::run(Some(name)),
        ["tidy"] => tidy::run(),
        ["realkube", directory] => realkube::build(std::path::Path::new(directory)),
        ["help" | "--help" | "-h"] => {
            shell::say(USAGE);
            return ExitCode::SUCCESS;
        }
        _ => {
            shell::complain(USAGE);
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            shell::complain(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

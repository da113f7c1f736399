//! What this machine lacks.

use anyhow::bail;

use crate::shell;

/// What is looked for: program, argument that makes it print its version, whether it must be there, what for.
const WANTED: [(&str, &str, bool, &str); 7] = [
    ("rustc", "--version", true, "builds everything"),
    ("cc", "--version", true, "compiles aws-lc"),
    ("git", "--version", true, "lists the files that tidy reads"),
    (
        "go",
        "version",
        false,
        "builds the real Kubernetes of the end-to-end tests and the bench",
    ),
    (
        "openssl",
        "version",
        false,
        "makes the real Kubernetes' certificates",
    ),
    (
        "curl",
        "--version",
        false,
        "asks the real Kubernetes whether it is ready",
    ),
    ("bash", "--version", false, "runs the real Kubernetes' scripts"),
];

pub(crate) fn run() -> anyhow::Result<()> {
    let mut missing = false;
    for (program, argument, must, purpose) in WANTED {
        let there = shell::has(program, argument);
        missing |= must && !there;
        let verdict = match (there, must) {
            (true, _) => "ok",
            (false, true) => "MISSING",
            (false, false) => "not here",
        };
        shell::say(&format!("{verdict:8}  {program:8}  {purpose}"));
    }
    if missing {
        bail!("something is missing: install it and run this again");
    }
    Ok(())
}

//! The inner loop: formatting, lints, fast tests, house rules, docs.

use crate::{shell, tidy};

pub(crate) fn run() -> anyhow::Result<()> {
    shell::step("formatting", || {
        shell::run(&mut shell::cargo(&["fmt", "--all", "--check"]))
    })?;
    shell::step("house rules", tidy::run)?;
    shell::step("lints", || {
        shell::run(&mut shell::cargo(&[
            "clippy",
            "--quiet",
            "--workspace",
            "--all-targets",
            "--locked",
            "--",
            "-D",
            "warnings",
        ]))
    })?;
    shell::step("tests", || {
        shell::run(&mut shell::cargo(&[
            "test",
            "--quiet",
            "--workspace",
            "--exclude",
            "e2e",
            "--locked",
        ]))
    })?;
    shell::step("docs", || {
        shell::run(
            shell::cargo(&[
                "doc",
                "--quiet",
                "--workspace",
                "--no-deps",
                "--document-private-items",
                "--locked",
            ])
            // The pages are for developers: private items are in them, and may be linked.
            .env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private_intra_doc_links"),
        )
    })
}

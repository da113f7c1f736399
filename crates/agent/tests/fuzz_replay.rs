//! The fuzz bodies over their committed corpora, whole and mutated.

use testkit::replay;

const ROUNDS: usize = 3_000;

#[test]
fn answers() {
    replay(
        concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/answer"),
        ROUNDS,
        agent::fuzz::fuzz_answer,
    );
}

#[test]
fn arguments() {
    replay(
        concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/arguments"),
        ROUNDS,
        agent::fuzz::fuzz_arguments,
    );
}

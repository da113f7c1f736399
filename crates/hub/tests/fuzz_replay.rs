//! The fuzz bodies over their committed corpora, whole and mutated.

use testkit::replay;

const ROUNDS: usize = 5_000;

#[test]
fn targets() {
    replay(
        concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/target"),
        ROUNDS,
        hub::fuzz::fuzz_target,
    );
}

#[test]
fn extras() {
    replay(
        concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/extra"),
        ROUNDS,
        hub::fuzz::fuzz_extra,
    );
}

#[test]
fn peers() {
    replay(
        concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/peer"),
        ROUNDS,
        hub::fuzz::fuzz_peer,
    );
}

#[test]
fn templates() {
    replay(
        concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/template"),
        ROUNDS,
        hub::fuzz::fuzz_template,
    );
}

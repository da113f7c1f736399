//! The fuzz bodies over their committed corpora, whole and mutated.

use testkit::replay;

const ROUNDS: usize = 3_000;

#[test]
fn plans() {
    replay(
        concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/plans"),
        ROUNDS,
        distribution::fuzz::fuzz_plans,
    );
}

#[test]
fn services() {
    replay(
        concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/services"),
        ROUNDS,
        distribution::fuzz::fuzz_services,
    );
}

//! The fuzz bodies over their committed corpora, whole and mutated.

use testkit::replay;

const ROUNDS: usize = 3_000;

#[test]
fn place() {
    replay(
        concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/place"),
        ROUNDS,
        placement::fuzz::fuzz_place,
    );
}

#[test]
fn predict() {
    replay(
        concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/predict"),
        ROUNDS,
        placement::fuzz::fuzz_predict,
    );
}

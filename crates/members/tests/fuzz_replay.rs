//! The fuzz bodies over their committed corpora, whole and mutated.

use testkit::replay;

const ROUNDS: usize = 5_000;

#[test]
fn spdy() {
    replay(
        concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/spdy"),
        ROUNDS,
        members::fuzz::fuzz_spdy,
    );
}

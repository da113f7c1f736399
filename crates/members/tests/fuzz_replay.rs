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

#[test]
fn channels() {
    replay(
        concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/channels"),
        1_000,
        members::fuzz::fuzz_channels,
    );
}

#[test]
fn behaviours() {
    replay(
        concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/behaviour"),
        1_000,
        members::fuzz::fuzz_behaviour,
    );
}

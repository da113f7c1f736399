//! The fuzz bodies over their committed corpora, whole and mutated.

use testkit::replay;

const ROUNDS: usize = 5_000;

#[test]
fn frames() {
    replay(
        concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/frame"),
        ROUNDS,
        tunnel_proto::fuzz::fuzz_frame,
    );
}

#[test]
fn sessions() {
    replay(
        concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/session"),
        ROUNDS,
        tunnel_proto::fuzz::fuzz_session,
    );
}

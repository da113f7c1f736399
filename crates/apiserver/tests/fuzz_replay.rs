//! The fuzz bodies over their committed corpora, whole and mutated.

use testkit::replay;

const ROUNDS: usize = 1_000;

#[test]
fn requests() {
    replay(
        concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/request"),
        ROUNDS,
        apiserver::fuzz::fuzz_request,
    );
}

#[test]
fn bodies() {
    replay(
        concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/body"),
        ROUNDS,
        apiserver::fuzz::fuzz_body,
    );
}

#[test]
fn accept_headers() {
    replay(
        concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/accept"),
        ROUNDS,
        apiserver::fuzz::fuzz_accept,
    );
}

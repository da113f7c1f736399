//! The fuzz bodies over their committed corpora, whole and mutated.

use testkit::replay;

const ROUNDS: usize = 3_000;

#[test]
fn watch_streams() {
    replay(
        concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/watch"),
        ROUNDS,
        kubeio::fuzz::fuzz_watch,
    );
}

#[test]
fn discovery() {
    replay(
        concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/discovery"),
        ROUNDS,
        kubeio::fuzz::fuzz_discovery,
    );
}

#[test]
fn failures() {
    replay(
        concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/failure"),
        ROUNDS,
        kubeio::fuzz::fuzz_failure,
    );
}

#[test]
fn kubeconfigs() {
    replay(
        concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/kubeconfig"),
        500,
        kubeio::fuzz::fuzz_kubeconfig,
    );
}

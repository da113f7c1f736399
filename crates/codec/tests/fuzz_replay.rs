//! The fuzz bodies over their committed corpora, whole and mutated.

use testkit::replay;

const ROUNDS: usize = 5_000;

#[test]
fn yaml() {
    replay(
        concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/yaml"),
        ROUNDS,
        codec::fuzz::fuzz_yaml,
    );
}

#[test]
fn protobuf() {
    replay(
        concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/protobuf"),
        ROUNDS,
        codec::fuzz::fuzz_protobuf,
    );
}

//! The fuzz bodies over their committed corpora, whole and mutated.

use testkit::replay;

const ROUNDS: usize = 3_000;

#[test]
fn descriptions() {
    replay(
        concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/description"),
        ROUNDS,
        deployer::fuzz::fuzz_description,
    );
}

//! The fuzz bodies over their committed corpora, whole and mutated.

use std::path::Path;

use machinery::fuzz::BODIES;

#[test]
fn bodies_survive_the_corpus_and_mutations_of_it() {
    for (name, body) in BODIES {
        testkit::replay(
            Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("fuzz/corpus")
                .join(name),
            3_000,
            body,
        );
    }
}

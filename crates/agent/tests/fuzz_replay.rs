//! Replays the committed corpus, and mutations of it from a fixed seed.

use std::path::Path;

const MUTATIONS: usize = 3_000;

fn replay(name: &str, body: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/corpus")
        .join(name);
    let mut corpus: Vec<_> = std::fs::read_dir(folder)
        .expect("a corpus")
        .map(|entry| std::fs::read(entry.expect("an entry").path()).expect("a file"))
        .collect();
    corpus.sort();
    assert!(!corpus.is_empty());
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below.max(1) as u64).expect("below a usize")
    };
    for sample in &corpus {
        body(sample);
    }
    for _ in 0..MUTATIONS {
        let mut bytes = corpus[random(corpus.len())].clone();
        for _ in 0..=random(4) {
            let at = random(bytes.len());
            match random(4) {
                0 => bytes[at] = u8::try_from(random(256)).expect("a byte"),
                1 => bytes.truncate(at.max(1)),
                2 => bytes.insert(at, b"{}[]\",:\n0"[random(9)]),
                _ => {
                    let copy = bytes[at..].to_vec();
                    bytes.extend(copy);
                }
            }
        }
        body(&bytes);
    }
}

#[test]
fn descriptions() {
    replay("description", agent::fuzz::fuzz_description);
}

#[test]
fn answers() {
    replay("answer", agent::fuzz::fuzz_answer);
}

#[test]
fn arguments() {
    replay("arguments", agent::fuzz::fuzz_arguments);
}

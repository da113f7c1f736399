//! Replays the committed corpus through every fuzz body, and a few thousand (`FUZZ_ROUNDS`) seeded mutations of it.

use std::path::Path;

use machinery::fuzz::BODIES;

/// A small generator (SplitMix64), so that a failure is found again.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// Bytes that mean something to one grammar or another.
const TOKENS: [&str; 32] = [
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    ",",
    ":",
    "\"",
    "'",
    "\\",
    ".",
    "..",
    "*",
    "@",
    "$",
    "?(",
    "=",
    "==",
    "!=",
    "!",
    "<",
    "null",
    "true",
    "0",
    "-1",
    "1e9",
    "Ki",
    "$patch",
    "\n",
    "\u{e9}",
    "9999999999999999999",
];

fn mutate(bytes: &mut Vec<u8>, others: &[Vec<u8>], random: &mut Random) {
    for _ in 0..=random.below(3) {
        let at = random.below(bytes.len() + 1);
        match random.below(6) {
            0 => {
                let token = TOKENS[random.below(TOKENS.len())].bytes();
                bytes.splice(at..at, token);
            }
            1 if at < bytes.len() => {
                bytes[at] = random.next() as u8;
            }
            2 => {
                let end = (at + random.below(8)).min(bytes.len());
                bytes.drain(at..end);
            }
            3 => {
                let end = (at + random.below(16)).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                let to = random.below(bytes.len() + 1);
                bytes.splice(to..to, piece);
            }
            4 => bytes.truncate(at),
            _ => {
                let other = &others[random.below(others.len())];
                let start = random.below(other.len());
                let end = (start + random.below(24)).min(other.len());
                bytes.splice(at..at, other[start..end].iter().copied());
            }
        }
    }
}

#[test]
fn bodies_survive_the_corpus_and_mutations_of_it() {
    let rounds = std::env::var("FUZZ_ROUNDS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(3_000);
    for (name, body) in BODIES {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("fuzz/corpus")
            .join(name);
        let mut paths: Vec<_> = std::fs::read_dir(&folder)
            .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
            .map(|entry| entry.expect("an entry").path())
            .collect();
        paths.sort();
        let corpus: Vec<Vec<u8>> = paths
            .iter()
            .map(|path| std::fs::read(path).expect("a file"))
            .collect();
        for bytes in &corpus {
            body(bytes);
        }
        for seed in 0..rounds {
            let mut random = Random(seed);
            let mut bytes = corpus[random.below(corpus.len())].clone();
            mutate(&mut bytes, &corpus, &mut random);
            let shown = String::from_utf8_lossy(&bytes).into_owned();
            let run = std::panic::catch_unwind(|| body(&bytes));
            assert!(run.is_ok(), "{name}, seed {seed}: {shown}");
        }
    }
}

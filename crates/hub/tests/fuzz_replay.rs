//! Replays the committed corpus, and a few thousand seeded mutations of it, through the fuzz bodies.

use std::fs;
use std::path::Path;

use hub::fuzz;

/// A small generator (SplitMix64), so that every run tries the same inputs.
struct Seeded(u64);

impl Seeded {
    fn next(&mut self) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 16) as usize
    }
}

fn replay(name: &str, body: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/corpus")
        .join(name);
    let mut paths: Vec<_> = fs::read_dir(&folder)
        .expect("the corpus is there")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    let corpus: Vec<Vec<u8>> = paths
        .iter()
        .map(|path| fs::read(path).expect("a readable file"))
        .collect();
    assert!(!corpus.is_empty());
    for bytes in &corpus {
        body(bytes);
    }
    let mut random = Seeded(42);
    for _ in 0..5_000 {
        let mut bytes = corpus[random.next() % corpus.len()].clone();
        for _ in 0..=random.next() % 4 {
            let at = random.next() % (bytes.len() + 1);
            match random.next() % 4 {
                0 => bytes.insert(at, random.next() as u8),
                1 => bytes.truncate(at),
                2 => bytes.extend_from_slice(&corpus[random.next() % corpus.len()]),
                _ => {
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte ^= 1 << (random.next() % 8);
                    }
                }
            }
        }
        body(&bytes);
    }
}

#[test]
fn targets() {
    replay("target", fuzz::fuzz_target);
}

#[test]
fn extras() {
    replay("extra", fuzz::fuzz_extra);
}

//! Replays the committed corpus, whole and mutated.

use std::path::Path;

/// A small generator, so that a failure repeats.
struct Seeded(u64);

impl Seeded {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits fit") % below.max(1)
    }

    fn mutate(&mut self, seed: &[u8]) -> Vec<u8> {
        const PIECES: [&[u8]; 8] = [
            b"null",
            b"-1",
            b"4294967296",
            b"\"\"",
            b"{}",
            b"[]",
            b"1e99",
            b"\"In\"",
        ];
        let mut bytes = seed.to_vec();
        for _ in 0..=self.next(4) {
            let at = self.next(bytes.len());
            match self.next(3) {
                0 => bytes[at] = u8::try_from(self.next(256)).expect("below 256"),
                1 => {
                    let end = (at + self.next(12)).min(bytes.len());
                    bytes.splice(at..end, PIECES[self.next(PIECES.len())].iter().copied());
                }
                _ => {
                    let from = self.next(bytes.len());
                    let piece = bytes[from..(from + self.next(40)).min(bytes.len())].to_vec();
                    bytes.splice(at..at, piece);
                }
            }
        }
        bytes
    }
}

#[test]
fn plans_survive_their_corpus() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/plans");
    let mut seeded = Seeded(7);
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    assert!(!files.is_empty());
    for file in files {
        let seed = std::fs::read(file).unwrap();
        distribution::fuzz::fuzz_plans(&seed);
        for _ in 0..3_000 {
            distribution::fuzz::fuzz_plans(&seeded.mutate(&seed));
        }
    }
}

//! Replays the committed corpora, and mutations of them, through the fuzz bodies.

use crate::fuzz;

/// A small generator whose whole run follows from its seed.
struct Random(u64);

impl Random {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % below.max(1)
    }

    fn mutate(&mut self, bytes: &mut Vec<u8>, other: &[u8]) {
        for _ in 0..=self.next(4) {
            let at = self.next(bytes.len());
            match self.next(6) {
                0 if !bytes.is_empty() => bytes[at] = u8::try_from(self.next(256)).unwrap(),
                1 if !bytes.is_empty() => bytes[at] ^= 1 << self.next(8),
                2 => bytes.truncate(at),
                3 => {
                    let end = (at + self.next(20)).min(bytes.len());
                    bytes.drain(at..end);
                }
                4 => {
                    let from = self.next(other.len());
                    let end = (from + self.next(40)).min(other.len());
                    bytes.splice(at..at, other[from..end].iter().copied());
                }
                _ => bytes.insert(at, u8::try_from(self.next(256)).unwrap()),
            }
        }
    }
}

fn replay(name: &str, rounds: usize, body: fn(&[u8])) {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/corpus")
        .join(name);
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let corpus: Vec<Vec<u8>> = files.iter().map(|file| std::fs::read(file).unwrap()).collect();
    assert!(!corpus.is_empty());
    corpus.iter().for_each(|bytes| body(bytes));
    let mut random = Random(0x7_0b_01_0a);
    for _ in 0..rounds {
        let mut bytes = corpus[random.next(corpus.len())].clone();
        let other = &corpus[random.next(corpus.len())];
        random.mutate(&mut bytes, other);
        body(&bytes);
    }
}

#[test]
fn yaml() {
    replay("yaml", 4_000, fuzz::fuzz_yaml);
}

#[test]
fn protobuf() {
    replay("protobuf", 6_000, fuzz::fuzz_protobuf);
}

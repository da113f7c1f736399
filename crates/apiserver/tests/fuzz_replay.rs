//! Replays the committed corpora of the fuzz targets, and mutations of them from fixed seeds.

#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::path::Path;

use apiserver::fuzz::{fuzz_accept, fuzz_body, fuzz_request};

/// A small generator of reproducible noise.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 16).unwrap_or(0)
    }
}

fn replay(name: &str, target: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/corpus")
        .join(name);
    let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
    let mut seen = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        target(&bytes);
        seen += 1;
        for _ in 0..1_000 {
            let mut mutated = bytes.clone();
            for _ in 0..=noise.next() % 4 {
                if mutated.is_empty() {
                    break;
                }
                let index = noise.next() % mutated.len();
                match noise.next() % 4 {
                    0 => mutated[index] = (noise.next() % 256) as u8,
                    1 => mutated.truncate(index),
                    2 => mutated.insert(index, (noise.next() % 256) as u8),
                    _ => {
                        let tail = mutated[index..].to_vec();
                        mutated.extend(tail);
                    }
                }
            }
            target(&mutated);
        }
    }
    assert!(seen > 0, "{name} has no corpus");
}

#[test]
fn requests() {
    replay("request", fuzz_request);
}

#[test]
fn bodies() {
    replay("body", fuzz_body);
}

#[test]
fn accept_headers() {
    replay("accept", fuzz_accept);
}

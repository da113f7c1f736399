//! What the crates' tests share: replaying fuzz bodies over a committed corpus on a stable toolchain. It is a
//! development dependency only, and depends on nothing.

use std::path::Path;

/// Pieces that parsers of numbers, JSON, selectors, paths and frames stumble over.
const PIECES: [&[u8]; 28] = [
    b"null",
    b"true",
    b"-1",
    b"4294967296",
    b"9999999999999999999",
    b"1e99",
    b"Ki",
    b"\"\"",
    b"{}",
    b"[]",
    b"{",
    b"]",
    b"(",
    b",",
    b":",
    b"'",
    b"\\",
    b"..",
    b"*",
    b"@",
    b"?(",
    b"!=",
    b"$patch",
    b"\\u0000",
    b"\0",
    b"\n",
    b"\xff\xff\xff\xff",
    b"%2F",
];

/// Runs `body` on every file of `folder`, then on `rounds` seeded mutations of them: the same ones each time.
///
/// # Panics
/// When the corpus is missing or empty, or when the body panics.
#[expect(clippy::disallowed_methods, reason = "a corpus is a folder of files")]
pub fn replay(folder: impl AsRef<Path>, rounds: usize, body: fn(&[u8])) {
    let folder = folder.as_ref();
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = entries
        .map(|entry| entry.expect("an entry of the corpus").path())
        .collect();
    paths.sort();
    let read = |path: &std::path::PathBuf| std::fs::read(path).expect("a file of the corpus");
    let corpus: Vec<Vec<u8>> = paths.iter().map(read).collect();
    assert!(!corpus.is_empty(), "{} holds no corpus", folder.display());
    corpus.iter().for_each(|bytes| body(bytes));
    let mut random = Random(0x5eed);
    for _ in 0..rounds {
        let mut bytes = corpus[random.below(corpus.len())].clone();
        let other = &corpus[random.below(corpus.len())];
        random.mutate(&mut bytes, other);
        body(&bytes);
    }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    /// A number below `limit`, 0 if that is 0.
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) >> 33).expect("31 bits fit") % limit.max(1)
    }

    fn byte(&mut self) -> u8 {
        u8::try_from(self.below(256)).expect("below 256")
    }

    fn mutate(&mut self, bytes: &mut Vec<u8>, other: &[u8]) {
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len() + 1);
            let end = (at + self.below(24)).min(bytes.len());
            match self.below(7) {
                0 => bytes.insert(at, self.byte()),
                1 => bytes.truncate(at),
                2 => drop(bytes.drain(at..end)),
                3 => drop(bytes.splice(at..end, PIECES[self.below(PIECES.len())].iter().copied())),
                4 => {
                    let from = self.below(other.len());
                    let to = (from + self.below(48)).min(other.len());
                    bytes.splice(at..at, other[from..to].iter().copied());
                }
                5 => {
                    let copy = bytes[at..end].to_vec();
                    bytes.splice(at..at, copy);
                }
                _ => {
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte ^= 1 << self.below(8);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mutations_repeat_and_differ() {
        let run = || {
            let mut random = Random(7);
            (0..50)
                .map(|_| {
                    let mut bytes = b"{\"a\": [1, 2]}".to_vec();
                    random.mutate(&mut bytes, b"other");
                    bytes
                })
                .collect::<Vec<_>>()
        };
        let first = run();
        assert_eq!(first, run());
        assert!(first.iter().any(|bytes| *bytes != first[0]));
    }
}

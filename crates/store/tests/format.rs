//! Store files of every released format open; any bytes in their place are refused without harm.

#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests")]

mod common;

use std::path::{Path, PathBuf};

use clock::disk::SimDisk;
use common::{content, open, put, small};
use source::{ObjectSource, Revision};
use store::{Mode, fuzz};

fn folder(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn files(path: &str) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = std::fs::read_dir(folder(path))
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| {
            (
                entry.file_name().into_string().unwrap(),
                std::fs::read(entry.path()).unwrap(),
            )
        })
        .collect();
    files.sort();
    files
}

/// The files in `tests/data/v1` hold `x0`..`x9` but `x3`; each was written at least twice.
#[tokio::test]
async fn format_1_opens() {
    let disk = SimDisk::new(1);
    for (name, bytes) in files("tests/data/v1") {
        disk.plant(&name, &bytes);
    }
    let store = open(&disk, small(), Mode::Inline).unwrap();
    let found = content(&store).await;
    let names: Vec<_> = found.keys().map(String::as_str).collect();
    assert_eq!(names, ["x0", "x1", "x2", "x4", "x5", "x6", "x7", "x8", "x9"]);
    assert_eq!(store.revision(), Revision(42));
    assert_eq!(store.incarnation(), "000102030405060708090a0b0c0d0e0f");
    let json = std::str::from_utf8(&found["x9"].1).unwrap();
    let expected =
        r#"{"metadata":{"name":"x9","resourceVersion":"41","labels":{"n":"l"}},"content":"round 3 of 9"}"#;
    assert_eq!(json, expected);
    store.write(put("x3", "again")).await.unwrap();
}

/// Writes the files of the current format to the folder named by `TOMBOLO_WRITE_FORMAT`: once for each format.
#[tokio::test]
async fn writes_the_current_format_if_asked() {
    let Some(target) = std::env::var_os("TOMBOLO_WRITE_FORMAT") else {
        return;
    };
    let disk = SimDisk::new(1);
    let mut options = small();
    options.env.random = std::sync::Arc::new(Counting);
    let store = open(&disk, options, Mode::Inline).unwrap();
    for round in 0..4 {
        for index in 0..10 {
            let write = put(&format!("x{index}"), &format!("round {round} of {index}"));
            store.write(write).await.unwrap();
        }
    }
    store.write(common::delete("x3")).await.unwrap();
    for name in clock::disk::Disk::list(&disk).unwrap() {
        let bytes = clock::disk::Disk::read(&disk, &name).unwrap();
        std::fs::write(Path::new(&target).join(name), bytes).unwrap();
    }
}

#[derive(Debug)]
struct Counting;

impl clock::Random for Counting {
    fn fill(&self, buffer: &mut [u8]) {
        let last = buffer.len() - 1;
        for (index, byte) in buffer.iter_mut().enumerate() {
            *byte = (last - index) as u8;
        }
    }
}

/// Changes bytes as a fuzzer would, always in the same way.
fn mutate(bytes: &[u8], round: u64) -> Vec<u8> {
    let mut state = round.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut random = |bound: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % bound.max(1) as u64) as usize
    };
    let mut bytes = bytes.to_vec();
    for _ in 0..=random(4) {
        if bytes.is_empty() {
            break;
        }
        let at = random(bytes.len());
        match random(4) {
            0 => bytes[at] ^= 1 << random(8),
            1 => bytes[at] = random(256) as u8,
            2 => bytes.truncate(at),
            _ => {
                let part = bytes[at..bytes.len().min(at + random(64))].to_vec();
                let to = random(bytes.len());
                bytes.splice(to..to, part);
            }
        }
    }
    bytes
}

/// Makes header and frame checksums right again, so that mutations get behind them.
fn mend(bytes: &mut [u8]) {
    if bytes.len() < 64 {
        return;
    }
    let salt = crc32fast::hash(&bytes[..60]).to_le_bytes();
    bytes[60..64].copy_from_slice(&salt);
    let mut offset = 64;
    while bytes.len() >= offset + 12 {
        let mut length = [0; 4];
        length.copy_from_slice(&bytes[offset + 4..offset + 8]);
        let end = offset + 12 + u32::from_le_bytes(length) as usize;
        let Some(payload) = bytes.get(offset + 12..end) else {
            break;
        };
        let parts = [&salt[..], &length[..], payload].concat();
        let checksum = crc32fast::hash(&parts).to_le_bytes();
        bytes[offset + 8..offset + 12].copy_from_slice(&checksum);
        offset = end;
    }
}

fn replay(corpus: &str, body: fn(&[u8])) {
    for (_, bytes) in files(corpus) {
        body(&bytes);
        for round in 0..2_000 {
            let mut mutated = mutate(&bytes, round);
            body(&mutated);
            mend(&mut mutated);
            body(&mutated);
        }
    }
}

#[test]
fn any_bytes_as_a_segment_are_harmless() {
    replay("fuzz/corpus/segment", fuzz::fuzz_segment);
}

#[test]
fn any_bytes_as_a_snapshot_are_harmless() {
    replay("fuzz/corpus/snapshot", fuzz::fuzz_snapshot);
}

#[test]
fn any_bytes_as_an_archive_are_harmless() {
    replay("fuzz/corpus/archive", fuzz::fuzz_archive);
}

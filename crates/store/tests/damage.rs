//! Durable bytes that change: the store opens with everything, or says what is wrong.

#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests")]

mod common;

use clock::disk::Disk;
use clock::disk::SimDisk;
use common::{Expected, Outcome, content, open, run, small, workload};
use store::{Mode, OpenError, Options};

/// A store's files after a workload.
async fn files(options: &Options) -> (Vec<(String, Vec<u8>)>, Expected) {
    let disk = SimDisk::new(0);
    let store = open(&disk, options.clone(), Mode::Inline).unwrap();
    let mut outcome = Outcome::default();
    run(&store, &workload(), &mut outcome).await;
    drop(store);
    let names = disk.list().unwrap();
    let read = |name: String| {
        let bytes = disk.read(&name).unwrap();
        (name, bytes)
    };
    (names.into_iter().map(read).collect(), outcome.expected)
}

fn plant(files: &[(String, Vec<u8>)]) -> SimDisk {
    let disk = SimDisk::new(0);
    for (name, bytes) in files {
        disk.plant(name, bytes);
    }
    disk
}

/// Opens with one byte changed.
async fn flip(files: &[(String, Vec<u8>)], file: usize, byte: usize) -> Result<Expected, OpenError> {
    let mut files = files.to_vec();
    files[file].1[byte] ^= 0x10;
    let store = open(&plant(&files), small(), Mode::Inline)?;
    Ok(content(&store).await)
}

#[tokio::test]
async fn a_changed_byte_is_noticed_wherever_it_is() {
    let (files, expected) = files(&small()).await;
    let last = files
        .iter()
        .rposition(|(name, _)| name.ends_with(".log"))
        .unwrap();
    let mut refused = 0;
    for file in 0..files.len() {
        for byte in (0..files[file].1.len()).step_by(3) {
            match flip(&files, file, byte).await {
                Ok(found) if found == expected => {}
                // The last frame of all cannot be told from one that a crash tore.
                Ok(found) => {
                    let lost = found
                        .iter()
                        .filter(|entry| expected.get(entry.0) != Some(entry.1))
                        .count();
                    assert!(file == last && lost <= 1, "\"{}\" byte {byte}", files[file].0);
                }
                Err(OpenError::Damaged { .. } | OpenError::Format { .. }) => refused += 1,
                Err(error @ (OpenError::Disk { .. } | OpenError::Missing)) => panic!("{error}"),
            }
        }
    }
    assert!(refused > 100, "{refused} refused");
}

#[tokio::test]
async fn a_missing_file_is_noticed() {
    let options = Options {
        snapshot_bytes: u64::MAX,
        ..small()
    };
    let (files, _) = files(&options).await;
    assert!(files.len() > 4);
    // Of the newest segment nothing else knows; of every other one the next does.
    for missing in 0..files.len() - 1 {
        let mut files = files.clone();
        let (name, _) = files.remove(missing);
        let error = open(&plant(&files), small(), Mode::Inline).expect_err(&name);
        assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
    }
}

#[tokio::test]
async fn damage_says_which_file_and_where() {
    let (files, _) = files(&small()).await;
    let snapshot = files
        .iter()
        .position(|(name, _)| name.ends_with(".snapshot"))
        .unwrap();
    let error = flip(&files, snapshot, 100).await.unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains(&files[snapshot].0) && text.contains("at byte 64"),
        "{text}"
    );
}

#[tokio::test]
async fn foreign_files_are_left_alone() {
    let (mut files, expected) = files(&small()).await;
    for name in ["notes.txt", "1.log", "00000000000000zz.log", "snapshot"] {
        files.push((name.to_owned(), b"foreign".to_vec()));
    }
    let disk = plant(&files);
    let store = open(&disk, small(), Mode::Inline).unwrap();
    assert_eq!(content(&store).await, expected);
    assert_eq!(disk.read("notes.txt").unwrap(), b"foreign");
    assert_eq!(disk.read("1.log").unwrap(), b"foreign");
}

#[tokio::test]
async fn a_newer_format_is_refused_by_name() {
    let (mut files, _) = files(&small()).await;
    let snapshot = files
        .iter()
        .position(|(name, _)| name.ends_with(".snapshot"))
        .unwrap();
    let bytes = &mut files[snapshot].1;
    bytes[8] = 9;
    let checksum = crc32fast::hash(&bytes[..60]);
    bytes[60..64].copy_from_slice(&checksum.to_le_bytes());
    let error = open(&plant(&files), small(), Mode::Inline).unwrap_err();
    assert!(
        matches!(
            error,
            OpenError::Format {
                found: 9,
                known: 1,
                ..
            }
        ),
        "{error}"
    );
}

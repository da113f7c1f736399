//! Archives: what was put in comes out, and nothing else passes for one.

#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests")]

mod common;

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use clock::disk::{Disk, SimDisk};
use common::{content, open, put, small};
use source::{ObjectSource, Revision};
use store::archive::{Archive, ArchiveError, Contents, unpack};
use store::{Copied, Mode, Options, Store};

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

const COPIED: Copied = Copied {
    revision: Revision(77),
    objects: 3,
};

fn archive(fill: impl FnOnce(&Archive) -> Copied) -> Vec<u8> {
    let sink = Sink::default();
    let archive = Archive::begin(sink.clone()).unwrap();
    let copied = fill(&archive);
    let length = archive.end(copied).unwrap();
    let bytes = sink.0.lock().unwrap().clone();
    assert_eq!(length, bytes.len() as u64);
    bytes
}

fn sample() -> Vec<u8> {
    archive(|archive| {
        let keys = archive.folder("keys").unwrap();
        let mut file = keys.create("a.key").unwrap();
        file.write_at(0, b"secret").unwrap();
        file.write_at(6, b" text").unwrap();
        keys.create("empty").unwrap();
        let other = archive.folder("other").unwrap();
        other.create("x.tmp").unwrap().write_at(0, b"x").unwrap();
        other.rename("x.tmp", "x").unwrap();
        COPIED
    })
}

/// What comes of an archive: what it says, and the files of the folder.
fn read(bytes: &[u8], folder: &str) -> Result<(Contents, Arc<SimDisk>), ArchiveError> {
    let disk = Arc::new(SimDisk::new(1));
    let contents = unpack(&mut &*bytes, &mut |name| {
        Ok((name == folder).then(|| disk.clone() as Arc<dyn Disk>))
    })?;
    Ok((contents, disk))
}

#[test]
fn what_was_put_in_comes_out_and_is_durable() {
    let bytes = sample();
    let (contents, keys) = read(&bytes, "keys").unwrap();
    let expected = Contents {
        copied: COPIED,
        bytes: bytes.len() as u64,
    };
    assert_eq!(contents, expected);
    let keys = keys.after_crash(1);
    assert_eq!(keys.list().unwrap(), ["a.key", "empty"]);
    assert_eq!(keys.read("a.key").unwrap(), b"secret text");
    let (_, other) = read(&bytes, "other").unwrap();
    assert_eq!(other.list().unwrap(), ["x"]);
}

#[test]
fn a_full_disk_is_not_taken_for_a_bad_archive() {
    let bytes = sample();
    for folder in ["keys", "other"] {
        let (_, whole) = read(&bytes, folder).unwrap();
        for step in 1..=whole.steps() {
            type Fault = fn(&SimDisk, u64);
            for fault in [
                SimDisk::fill_at as Fault,
                SimDisk::crash_at,
                SimDisk::fail_sync_at,
            ] {
                let disk = Arc::new(SimDisk::new(1));
                fault(&disk, step);
                let unpacked = unpack(&mut &*bytes, &mut |name| {
                    Ok((name == folder).then(|| disk.clone() as Arc<dyn Disk>))
                });
                if let Err(error) = unpacked {
                    assert!(matches!(error, ArchiveError::Unpacked(_)), "step {step}: {error}");
                }
            }
        }
    }
    let disk = Arc::new(SimDisk::new(1));
    disk.set_capacity(Some(1));
    let error = unpack(&mut &*bytes, &mut |_| Ok(Some(disk.clone() as Arc<dyn Disk>))).unwrap_err();
    assert!(matches!(error, ArchiveError::Unpacked(_)), "{error}");
}

#[test]
fn the_form_stays() {
    let kept = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/archive/sample")).unwrap();
    assert_eq!(sample(), kept);
}

#[test]
fn no_part_and_no_change_of_one_passes_for_one() {
    let bytes = sample();
    for length in 0..bytes.len() {
        let error = read(&bytes[..length], "keys").unwrap_err();
        assert!(matches!(error, ArchiveError::Cut(_)), "{length}: {error}");
    }
    for index in 0..bytes.len() {
        for bit in [1, 0x80] {
            let mut changed = bytes.clone();
            changed[index] ^= bit;
            assert!(read(&changed, "none").is_err(), "byte {index}");
        }
    }
    let mut longer = bytes.clone();
    longer.push(0);
    let error = read(&longer, "keys").unwrap_err();
    assert_eq!(error.to_string(), "it is damaged: something follows its end");
    let error = read(b"apiVersion: v1, of something else", "keys").unwrap_err();
    assert!(matches!(error, ArchiveError::NotOne), "{error}");
    let mut newer = bytes;
    newer[15] = 9;
    let error = read(&newer, "keys").unwrap_err();
    assert!(matches!(error, ArchiveError::Version(9)), "{error}");
}

#[tokio::test]
async fn a_store_goes_through_an_archive_running_or_closed() {
    let disk = SimDisk::new(1);
    let store = open(&disk, small(), Mode::Inline).unwrap();
    for index in 0..300 {
        store.write(put(&format!("x{}", index % 40), "1")).await.unwrap();
    }
    let before = content(&store).await;
    let running = archive(|archive| store.backup(&archive.folder("store").unwrap()).unwrap());
    let revision = store.revision();
    drop(store);
    let files = disk.list().unwrap();
    let closed = archive(|archive| Store::backup_closed(&disk, &archive.folder("store").unwrap()).unwrap());
    assert_eq!(disk.list().unwrap(), files, "it is only read");
    for bytes in [running, closed] {
        let (contents, copy) = read(&bytes, "store").unwrap();
        assert_eq!(
            (contents.copied.revision, contents.copied.objects),
            (revision, 40)
        );
        let options = Options {
            new_incarnation: true,
            ..small()
        };
        let restored = open(&*copy, options, Mode::Inline).unwrap();
        assert_eq!(content(&restored).await, before);
    }
    let nothing = Store::backup_closed(&SimDisk::new(1), &SimDisk::new(2));
    assert!(matches!(nothing, Err(store::OpenError::Missing)));
}

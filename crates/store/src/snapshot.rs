//! Snapshots: all objects at one revision in one file, made beside the log that they replace.

use std::io;
use std::sync::Arc;

use clock::disk::Disk;
use source::packed::{Malformed, Reader};
use source::{Object, Revision};

use crate::codec::{self, Record};
use crate::frame::{self, HEADER, Header};
use crate::segment::{Failure, failure, fatal};

/// Where a snapshot is made before it gets its name.
pub(crate) const TEMPORARY: &str = "snapshot.tmp";

/// A frame is closed once it is this large.
const CHUNK: usize = 1 << 20;

const OBJECTS: u8 = 2;
const END: u8 = 3;

/// A snapshot's file name.
pub(crate) fn name(revision: Revision) -> String {
    format!("{:016x}.snapshot", revision.0)
}

/// Writes a snapshot durably: temporary file, sync, rename, sync of the directory. Its size in bytes is the answer.
/// When there is no room nothing is left of it.
pub(crate) fn write(disk: &dyn Disk, header: &Header, objects: &[Arc<Object>]) -> Result<u64, Failure> {
    let result = write_temporary(disk, header, objects);
    if matches!(result, Err(Failure::Full)) {
        match disk.remove(TEMPORARY) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(fatal("remove", TEMPORARY, &error)),
        }
    }
    let bytes = result?;
    let name = name(Revision(header.revision));
    disk.rename(TEMPORARY, &name)
        .map_err(|error| fatal("rename to", &name, &error))?;
    disk.sync_directory()
        .map_err(|error| fatal("sync the directory of", &name, &error))?;
    Ok(bytes)
}

fn write_temporary(disk: &dyn Disk, header: &Header, objects: &[Arc<Object>]) -> Result<u64, Failure> {
    let mut file = disk
        .create(TEMPORARY)
        .map_err(|error| failure("create", TEMPORARY, &error))?;
    let (bytes, salt) = header.encode();
    let mut offset = 0;
    let mut append = |bytes: &[u8]| {
        let at = offset;
        offset += bytes.len() as u64;
        file.write_at(at, bytes)
            .map_err(|error| failure("write to", TEMPORARY, &error))
    };
    append(&bytes)?;
    let mut buffer = Vec::with_capacity(CHUNK + CHUNK / 4);
    let mut rest = objects;
    while !rest.is_empty() {
        frame::begin(&mut buffer);
        buffer.push(OBJECTS);
        while let Some((object, behind)) = rest.split_first() {
            if buffer.len() >= CHUNK {
                break;
            }
            codec::put(&mut buffer, object);
            rest = behind;
        }
        frame::end(&mut buffer, salt);
        append(&buffer)?;
    }
    frame::begin(&mut buffer);
    buffer.push(END);
    frame::end(&mut buffer, salt);
    append(&buffer)?;
    file.sync().map_err(|error| fatal("sync", TEMPORARY, &error))?;
    Ok(offset)
}

/// What is wrong with a snapshot: where, and what.
pub(crate) type Damage = (u64, String);

/// Reads the objects of a snapshot whose header is already read.
pub(crate) fn read(
    file: &[u8],
    header: &Header,
    salt: u32,
    mut load: impl FnMut(Object),
) -> Result<(), Damage> {
    let mut offset = HEADER;
    let mut count = 0;
    loop {
        let damage = |reason: &str| (offset as u64, reason.to_owned());
        let payload =
            frame::read(file, offset, salt).ok_or_else(|| damage("a checksum of the snapshot is wrong"))?;
        let mut reader = Reader::new(payload);
        match reader.byte() {
            Ok(OBJECTS) => {
                while !reader.is_done() {
                    let Ok(Record::Put(object)) = codec::record(&mut reader) else {
                        return Err(damage("an object of the snapshot cannot be read"));
                    };
                    count += 1;
                    load(object);
                }
            }
            Ok(END) if count == header.count => return Ok(()),
            Ok(END) => {
                let reason = format!("the snapshot has {count} objects of {}", header.count);
                return Err((offset as u64, reason));
            }
            Ok(_) | Err(Malformed) => return Err(damage("a part of the snapshot is of an unknown kind")),
        }
        offset += frame::FRAME + payload.len();
    }
}

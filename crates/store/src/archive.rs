//! Folders of files as one stream of bytes that says at its end whether it is whole: what a backup is made of.
//!
//! It is the log of what was done to the folders. Whoever writes takes a [`Disk`] of each folder and does there what is
//! to be done; whoever reads does the same on other disks. It does not know what the files hold. Entry points:
//! [`Archive`] and [`unpack`].
//!
//! The form: a header (`tombolo backup`, a zero, its version as one byte), then records. A record is its kind (one
//! byte), the length of its payload (four bytes, little endian) and the payload. The last one holds the revision and
//! the number of objects (eight bytes each) and the SHA-256 of all before its sum.

use std::fmt;
use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};

use clock::disk::{Disk, DiskFile};
use sha2::{Digest as _, Sha256};
use source::Revision;

use crate::Copied;

const MAGIC: &[u8; 15] = b"tombolo backup\0";
/// The version that this program writes, and the newest that it reads.
const VERSION: u8 = 1;
/// The longest payload that is read, so that damaged lengths take no memory. Writers make shorter ones.
const LONGEST: usize = 4 << 20;

const FOLDER: u8 = 1;
const CREATE: u8 = 2;
const DATA: u8 = 3;
const RENAME: u8 = 4;
const END: u8 = 5;
/// Revision, number of objects, sum.
const END_LENGTH: u32 = 8 + 8 + 32;

/// Why an archive cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// It is something else.
    #[error("it is no backup")]
    NotOne,
    /// A newer program wrote it.
    #[error("it has format {0}, this program reads format {VERSION}: use the newer program that wrote it")]
    Version(u8),
    /// It ends too early.
    #[error("it was cut off after {0} bytes: it is not a whole backup")]
    Cut(u64),
    /// Its bytes have changed.
    #[error("it is damaged: {0}")]
    Damaged(String),
    /// It cannot be read or written.
    #[error("it cannot be read or written")]
    Io(#[from] io::Error),
    /// What is in it cannot be written elsewhere.
    #[error("what is in it cannot be written")]
    Unpacked(#[source] io::Error),
}

/// An archive that is written.
pub struct Archive(Arc<Mutex<Output>>);

impl fmt::Debug for Archive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Archive").finish_non_exhaustive()
    }
}

struct Output {
    out: Box<dyn Write + Send>,
    hash: Sha256,
    bytes: u64,
}

impl Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
        self.out.write_all(bytes)
    }

    fn record(&mut self, kind: u8, payload: &[u8]) -> io::Result<()> {
        let length = u32::try_from(payload.len()).expect("payloads are split before");
        self.write(&[kind])?;
        self.write(&length.to_le_bytes())?;
        self.write(payload)
    }
}

impl Archive {
    /// Begins an archive.
    ///
    /// # Errors
    /// What the output says.
    pub fn begin(out: impl Write + Send + 'static) -> io::Result<Self> {
        let mut output = Output {
            out: Box::new(out),
            hash: Sha256::new(),
            bytes: 0,
        };
        output.write(MAGIC)?;
        output.write(&[VERSION])?;
        Ok(Self(Arc::new(Mutex::new(output))))
    }

    /// The next folder. What was done to the one before is over.
    ///
    /// # Errors
    /// What the output says.
    pub fn folder(&self, name: &str) -> io::Result<impl Disk + use<>> {
        let folder = Folder(self.0.clone());
        folder.record(FOLDER, name.as_bytes())?;
        Ok(folder)
    }

    /// Ends it; how long it is is the answer.
    ///
    /// # Errors
    /// What the output says.
    pub fn end(self, copied: Copied) -> io::Result<u64> {
        let mut output = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        output.write(&[END])?;
        output.write(&END_LENGTH.to_le_bytes())?;
        output.write(&copied.revision.0.to_le_bytes())?;
        output.write(&copied.objects.to_le_bytes())?;
        let sum = output.hash.clone().finalize();
        output.write(&sum)?;
        output.out.flush()?;
        Ok(output.bytes)
    }
}

/// A folder that only takes down what is done to it.
struct Folder(Arc<Mutex<Output>>);

impl fmt::Debug for Folder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Folder").finish_non_exhaustive()
    }
}

fn unsupported() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "an archive is only written to")
}

impl Folder {
    fn record(&self, kind: u8, payload: &[u8]) -> io::Result<()> {
        let mut output = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        output.record(kind, payload)
    }
}

impl Disk for Folder {
    fn list(&self) -> io::Result<Vec<String>> {
        Err(unsupported())
    }

    fn read(&self, _name: &str) -> io::Result<Vec<u8>> {
        Err(unsupported())
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.record(CREATE, name.as_bytes())?;
        Ok(Box::new(Appended {
            folder: Self(self.0.clone()),
            length: 0,
        }))
    }

    fn open(&self, _name: &str) -> io::Result<Box<dyn DiskFile>> {
        Err(unsupported())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.record(RENAME, format!("{from}/{to}").as_bytes())
    }

    fn remove(&self, _name: &str) -> io::Result<()> {
        Err(unsupported())
    }

    fn sync_directory(&self) -> io::Result<()> {
        Ok(())
    }
}

/// The file that was created last.
#[derive(Debug)]
struct Appended {
    folder: Folder,
    length: u64,
}

impl DiskFile for Appended {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if offset != self.length {
            return Err(unsupported());
        }
        for part in bytes.chunks(LONGEST / 4) {
            self.folder.record(DATA, part)?;
        }
        self.length += bytes.len() as u64;
        Ok(())
    }

    fn reserve(&mut self, _size: u64) -> io::Result<()> {
        Ok(())
    }

    fn truncate(&mut self, _size: u64) -> io::Result<()> {
        Err(unsupported())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What an archive says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contents {
    /// What was copied.
    pub copied: Copied,
    /// How long the archive is.
    pub bytes: u64,
}

/// Answers the disk for a folder's name.
pub type Folders<'a> = &'a mut dyn FnMut(&str) -> io::Result<Option<Arc<dyn Disk>>>;

/// Reads an archive to its end and writes its folders to the disks that `open` answers for their names; those of which
/// it answers `None` are only read. Nothing on the disks counts before this returns: only then the archive was whole.
///
/// # Errors
/// [`ArchiveError`].
pub fn unpack(from: &mut dyn Read, open: Folders<'_>) -> Result<Contents, ArchiveError> {
    let mut input = Input {
        from,
        hash: Sha256::new(),
        bytes: 0,
    };
    let mut header = [0; 16];
    input.fill(&mut header)?;
    if header[..15] != MAGIC[..] {
        return Err(ArchiveError::NotOne);
    }
    if header[15] != VERSION {
        return Err(ArchiveError::Version(header[15]));
    }
    let mut target = Target::default();
    loop {
        let mut head = [0; 5];
        input.fill(&mut head)?;
        let [kind, length @ ..] = head;
        let length = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
        if length > LONGEST {
            return Err(damaged(&input, "a part of it has an impossible length"));
        }
        if kind == END {
            return input.end(length, target);
        }
        let mut payload = vec![0; length];
        input.fill(&mut payload)?;
        match kind {
            DATA => target.data(&payload).map_err(ArchiveError::Unpacked)?,
            FOLDER | CREATE | RENAME => {
                let Ok(text) = std::str::from_utf8(&payload) else {
                    return Err(damaged(&input, "a name in it is no text"));
                };
                match kind {
                    FOLDER => target.folder(text, open)?,
                    CREATE => target.create(text).map_err(ArchiveError::Unpacked)?,
                    _ => {
                        let names = text.split_once('/');
                        let (from, to) =
                            names.ok_or_else(|| damaged(&input, "a rename in it has no name"))?;
                        target.rename(from, to).map_err(ArchiveError::Unpacked)?;
                    }
                }
            }
            _ => return Err(damaged(&input, "a part of it is of an unknown kind")),
        }
    }
}

fn damaged(input: &Input<'_>, why: &str) -> ArchiveError {
    ArchiveError::Damaged(format!("{why} (before byte {})", input.bytes))
}

struct Input<'a> {
    from: &'a mut dyn Read,
    hash: Sha256,
    bytes: u64,
}

impl Input<'_> {
    fn fill(&mut self, buffer: &mut [u8]) -> Result<(), ArchiveError> {
        match self.from.read_exact(buffer) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(ArchiveError::Cut(self.bytes));
            }
            Err(error) => return Err(error.into()),
        }
        self.hash.update(&*buffer);
        self.bytes += buffer.len() as u64;
        Ok(())
    }

    fn end(mut self, length: usize, target: Target) -> Result<Contents, ArchiveError> {
        if length != END_LENGTH as usize {
            return Err(damaged(&self, "its end has an impossible length"));
        }
        let (mut revision, mut objects) = ([0; 8], [0; 8]);
        self.fill(&mut revision)?;
        self.fill(&mut objects)?;
        let sum = self.hash.clone().finalize();
        let mut said = [0; 32];
        self.fill(&mut said)?;
        if sum[..] != said {
            return Err(ArchiveError::Damaged("its checksum is wrong".to_owned()));
        }
        let mut more = [0; 1];
        if self.from.read(&mut more)? > 0 {
            return Err(ArchiveError::Damaged("something follows its end".to_owned()));
        }
        target.close().map_err(ArchiveError::Unpacked)?;
        Ok(Contents {
            copied: Copied {
                revision: Revision(u64::from_le_bytes(revision)),
                objects: u64::from_le_bytes(objects),
            },
            bytes: self.bytes,
        })
    }
}

/// Where the records of an archive go.
#[derive(Default)]
struct Target {
    folder: Option<Arc<dyn Disk>>,
    file: Option<(Box<dyn DiskFile>, u64)>,
}

impl Target {
    fn folder(&mut self, name: &str, open: Folders<'_>) -> Result<(), ArchiveError> {
        std::mem::take(self).close().map_err(ArchiveError::Unpacked)?;
        self.folder = open(name)?;
        Ok(())
    }

    fn create(&mut self, name: &str) -> io::Result<()> {
        self.finish_file()?;
        if let Some(folder) = &self.folder {
            self.file = Some((folder.create(name)?, 0));
        }
        Ok(())
    }

    fn data(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Some((file, length)) = &mut self.file {
            file.write_at(*length, bytes)?;
            *length += bytes.len() as u64;
        }
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.finish_file()?;
        if let Some(folder) = &self.folder {
            folder.rename(from, to)?;
        }
        Ok(())
    }

    fn finish_file(&mut self) -> io::Result<()> {
        if let Some((mut file, _)) = self.file.take() {
            file.sync()?;
        }
        Ok(())
    }

    fn close(mut self) -> io::Result<()> {
        self.finish_file()?;
        if let Some(folder) = &self.folder {
            folder.sync_directory()?;
        }
        Ok(())
    }
}

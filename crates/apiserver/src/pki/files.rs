//! Where the pieces lie: `NAME.key` beside `NAME.crt`. A key is written before its certificate, each whole or
//! not at all, so that a crash in between is mended by certifying the same key.

use std::io;

use clock::Env;
use clock::disk::Disk;
use jiff::{SignedDuration, Timestamp};
use rcgen::KeyPair;

use super::issue::{
    Authority, Identity, Leaf, belongs, made, new_key, not_after, parse_key, with_certificate,
};
use super::{LEAF_LIFETIME, LEAF_RENEWAL, Phase, PkiError, Secret};

/// The authority that will follow, and the certificate of the one that went before.
pub(super) const NEXT: &str = "ca-next";
const PREVIOUS: &str = "ca-previous.crt";

fn file_error(file: &str) -> impl FnOnce(io::Error) -> PkiError + '_ {
    move |source| PkiError::File {
        file: file.to_owned(),
        source,
    }
}

fn read(disk: &dyn Disk, file: &str) -> Result<Option<String>, PkiError> {
    match disk.read(file) {
        Ok(bytes) => String::from_utf8(bytes)
            .map(Some)
            .map_err(|error| PkiError::Damaged {
                file: file.to_owned(),
                why: error.to_string(),
            }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(file_error(file)(error)),
    }
}

/// Writes a file whole: under another name, synced, then renamed.
fn write(disk: &dyn Disk, file: &str, text: &str) -> Result<(), PkiError> {
    let fresh = format!("{file}.new");
    let save = || {
        let mut handle = disk.create(&fresh)?;
        handle.write_at(0, text.as_bytes())?;
        handle.sync()?;
        drop(handle);
        disk.rename(&fresh, file)?;
        disk.sync_directory()
    };
    save().map_err(file_error(file))
}

fn load_key(disk: &dyn Disk, file: &str) -> Result<Option<KeyPair>, PkiError> {
    let Some(pem) = read(disk, file)? else {
        return Ok(None);
    };
    parse_key(&pem).map(Some).map_err(|error| PkiError::Damaged {
        file: file.to_owned(),
        why: error.to_string(),
    })
}

/// The key under `file`, made if absent.
pub(super) fn key(disk: &dyn Disk, file: &str) -> Result<Secret, PkiError> {
    if let Some(pem) = read(disk, file)? {
        // The format is checked by who uses it: a key put here by a person may be RSA in PKCS #8.
        return Ok(Secret::new(pem));
    }
    let pem = new_key()?.serialize_pem();
    write(disk, file, &pem)?;
    Ok(Secret::new(pem))
}

/// Whom to trust beside an authority, and where the succession is.
pub(super) fn trusted(disk: &dyn Disk, authority: &Authority) -> Result<(String, Phase), PkiError> {
    let own = authority.certificate_pem();
    let since = |file: &str, pem: &str| {
        with_certificate(pem, made).map_err(|error| PkiError::Damaged {
            file: file.to_owned(),
            why: error.to_string(),
        })
    };
    let next = format!("{NEXT}.crt");
    if let Some(pem) = read(disk, &next)? {
        let since = since(&next, &pem)?;
        return Ok((format!("{own}{pem}"), Phase::Announced { since }));
    }
    if let Some(pem) = read(disk, PREVIOUS)? {
        since(PREVIOUS, &pem)?;
        let since = since("ca.crt", own)?;
        return Ok((format!("{own}{pem}"), Phase::Succeeded { since }));
    }
    let ends = authority.not_after();
    Ok((own.to_owned(), Phase::Alone { ends }))
}

/// Puts the announced authority in the place of the one that signs, whose key goes. Three steps, each durable before the
/// next: after a crash [`finish_succession`] does the last.
pub(super) fn succeed(disk: &dyn Disk, authority: &Authority) -> Result<(), PkiError> {
    write(disk, PREVIOUS, authority.certificate_pem())?;
    let key = format!("{NEXT}.key");
    disk.rename(&key, "ca.key")
        .and_then(|()| disk.sync_directory())
        .map_err(file_error(&key))?;
    finish_succession(disk)
}

/// Gives the certificate of the authority that follows its name, if its key has it.
pub(super) fn finish_succession(disk: &dyn Disk) -> Result<(), PkiError> {
    let next = format!("{NEXT}.crt");
    let (Some(pem), Some(key)) = (read(disk, &next)?, load_key(disk, "ca.key")?) else {
        return Ok(());
    };
    if !belongs(&pem, &key) {
        return Ok(());
    }
    disk.rename(&next, "ca.crt")
        .and_then(|()| disk.sync_directory())
        .map_err(file_error(&next))
}

/// The authority that went before is trusted no longer.
pub(super) fn forget(disk: &dyn Disk) -> Result<(), PkiError> {
    disk.remove(PREVIOUS)
        .and_then(|()| disk.sync_directory())
        .map_err(file_error(PREVIOUS))
}

/// The authority under `NAME.crt` and `NAME.key`, made if need be, and anew for the same key with less than `renewal` left.
pub(super) fn authority(
    disk: &dyn Disk,
    name: &str,
    common_name: &str,
    renewal: SignedDuration,
    now: Timestamp,
    env: &Env,
) -> Result<Authority, PkiError> {
    let (key_file, certificate_file) = (format!("{name}.key"), format!("{name}.crt"));
    let certificate = read(disk, &certificate_file)?;
    let key = match load_key(disk, &key_file)? {
        Some(key) => key,
        None if certificate.is_some() => {
            return Err(PkiError::Damaged {
                file: key_file,
                why: format!("it is missing beside \"{certificate_file}\""),
            });
        }
        None => {
            let key = new_key()?;
            write(disk, &key_file, &key.serialize_pem())?;
            key
        }
    };
    if let Some(pem) = certificate {
        let damaged = |why: String| PkiError::Damaged {
            file: certificate_file.clone(),
            why,
        };
        let end = with_certificate(&pem, not_after).map_err(|error| damaged(error.to_string()))?;
        if !belongs(&pem, &key) {
            return Err(damaged(format!("it does not certify the key of \"{key_file}\"")));
        }
        if end.duration_since(now) > renewal {
            return Authority::from_pem(&pem, &key.serialize_pem());
        }
    }
    let authority = Authority::create_with(common_name, key, now, env)?;
    write(disk, &certificate_file, authority.certificate_pem())?;
    Ok(authority)
}

/// The leaf under `NAME.crt` and `NAME.key`; made anew if it is absent, ends soon, is of another authority or
/// says something else.
pub(super) fn leaf(
    disk: &dyn Disk,
    name: &str,
    authority: &Authority,
    leaf: &Leaf,
    now: Timestamp,
    env: &Env,
) -> Result<Identity, PkiError> {
    let (key_file, certificate_file) = (format!("{name}.key"), format!("{name}.crt"));
    let key = match load_key(disk, &key_file)? {
        Some(key) => key,
        None => {
            let key = new_key()?;
            write(disk, &key_file, &key.serialize_pem())?;
            key
        }
    };
    let key_pem = Secret::new(key.serialize_pem());
    if let Some(pem) = read(disk, &certificate_file)? {
        let fits = with_certificate(&pem, |certificate| {
            not_after(certificate).duration_since(now) > LEAF_RENEWAL
                && authority.signed(certificate)
                && leaf.is_said_by(certificate)
        })
        .unwrap_or(false);
        if fits && belongs(&pem, &key) {
            return Ok(Identity {
                certificate_pem: pem,
                key_pem,
            });
        }
    }
    let certificate_pem = authority.certify(leaf, &key, LEAF_LIFETIME, now, env)?;
    write(disk, &certificate_file, &certificate_pem)?;
    Ok(Identity {
        certificate_pem,
        key_pem,
    })
}

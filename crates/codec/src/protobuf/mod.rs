//! Kubernetes protobuf: objects of the built-in kinds between JSON values and `application/vnd.kubernetes.protobuf`.
//!
//! A table of facts (`table.txt`, derived by `cargo xtask codegen protobuf`) says which field number carries which JSON
//! field; nothing here knows a kind by itself. Custom resources have no protobuf form. Entry points: [`decode()`],
//! [`encode()`], [`watch_frame`], and [`normalize`] for JSON that shall say no more than protobuf can.

mod decode;
mod encode;
mod normal;
mod special;
mod table;

#[cfg(test)]
mod tests;

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::{Map, Value};

use crate::wire;
pub use normal::Quantities;
use table::Table;

/// The media type of one object.
pub const CONTENT_TYPE: &str = "application/vnd.kubernetes.protobuf";
/// The media type of a watch's stream of [`watch_frame`]s.
pub const WATCH_CONTENT_TYPE: &str = "application/vnd.kubernetes.protobuf;stream=watch";
/// What every object in protobuf begins with.
pub const MAGIC: [u8; 4] = *b"k8s\0";
/// How deep messages may nest.
const DEPTH: usize = 200;
/// The largest watch frame that is read, in bytes.
const FRAME: usize = 64 << 20;

/// Why bytes are no object, or an object has no protobuf form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The bytes don't begin with [`MAGIC`].
    #[error("the body is not Kubernetes protobuf: it does not begin with the magic number")]
    NoMagic,
    /// A length points past the end, or a varint does not end.
    #[error("the protobuf body is cut off or damaged")]
    Damaged,
    /// Messages nest deeper than any real object.
    #[error("the object nests deeper than {DEPTH} levels")]
    TooDeep,
    /// Compressed or otherwise encoded content.
    #[error("the content encoding {0:?} is not supported")]
    ContentEncoding(String),
    /// No built-in kind has this name.
    #[error("no kind \"{kind}\" of \"{api_version}\" has a protobuf form")]
    UnknownKind {
        /// The object's `apiVersion`.
        api_version: String,
        /// The object's `kind`.
        kind: String,
    },
    /// A field holds what its type cannot.
    #[error("{path}: {wanted}")]
    Field {
        /// The field's path, as in `spec.replicas`; list items are numbered.
        path: String,
        /// What is wrong with it.
        wanted: &'static str,
    },
    /// A watch frame claims to be larger than any event.
    #[error("a watch frame of {0} bytes is over the limit of {FRAME}")]
    FrameTooLarge(usize),
}

impl Error {
    pub(crate) fn field(wanted: &'static str) -> Self {
        Self::Field {
            path: String::new(),
            wanted,
        }
    }

    /// Puts a field in front of the path of a [`Error::Field`].
    fn within(self, name: &str) -> Self {
        match self {
            Self::Field { path, wanted } if path.is_empty() => Self::Field {
                path: name.to_owned(),
                wanted,
            },
            Self::Field { path, wanted } if path.starts_with('[') => Self::Field {
                path: format!("{name}{path}"),
                wanted,
            },
            Self::Field { path, wanted } => Self::Field {
                path: format!("{name}.{path}"),
                wanted,
            },
            Self::NoMagic
            | Self::Damaged
            | Self::TooDeep
            | Self::ContentEncoding(_)
            | Self::UnknownKind { .. }
            | Self::FrameTooLarge(_) => self,
        }
    }

    fn at(self, index: usize) -> Self {
        self.within(&format!("[{index}]"))
    }
}

/// An object's bytes still in their envelope (`runtime.Unknown`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Envelope<'a> {
    /// The object's `apiVersion`.
    pub api_version: &'a str,
    /// The object's `kind`.
    pub kind: &'a str,
    /// The object itself.
    pub raw: &'a [u8],
    /// Its media type; empty means protobuf.
    pub content_type: &'a str,
}

/// Opens the envelope of a protobuf body without decoding the object in it.
///
/// # Errors
/// [`Error::NoMagic`], [`Error::Damaged`], or [`Error::ContentEncoding`] for an encoded body.
pub fn envelope(body: &[u8]) -> Result<Envelope<'_>, Error> {
    let mut rest = body.strip_prefix(&MAGIC).ok_or(Error::NoMagic)?;
    let mut found = Envelope::default();
    while let Some((number, wire)) = wire::tag(&mut rest)? {
        match (number, wire) {
            (1, wire::BYTES) => {
                let mut meta = wire::bytes(&mut rest)?;
                while let Some((number, wire)) = wire::tag(&mut meta)? {
                    match (number, wire) {
                        (1, wire::BYTES) => found.api_version = wire::text(wire::bytes(&mut meta)?)?,
                        (2, wire::BYTES) => found.kind = wire::text(wire::bytes(&mut meta)?)?,
                        _ => wire::skip(&mut meta, wire, number, DEPTH)?,
                    }
                }
            }
            (2, wire::BYTES) => found.raw = wire::bytes(&mut rest)?,
            (3, wire::BYTES) => {
                let encoding = wire::text(wire::bytes(&mut rest)?)?;
                if !encoding.is_empty() {
                    return Err(Error::ContentEncoding(encoding.to_owned()));
                }
            }
            (4, wire::BYTES) => found.content_type = wire::text(wire::bytes(&mut rest)?)?,
            _ => wire::skip(&mut rest, wire, number, DEPTH)?,
        }
    }
    Ok(found)
}

/// Whether a kind has a protobuf form.
#[must_use]
pub fn supports(api_version: &str, kind: &str) -> bool {
    Table::get().kind(api_version, kind).is_some()
}

/// Decodes a protobuf body, envelope and all, to the JSON form that a Go client would print.
///
/// Fields the table does not know are skipped. `apiVersion` and `kind` come from the envelope.
///
/// # Errors
/// See [`Error`]; lengths are checked against the body before anything is allocated for them.
pub fn decode(body: &[u8]) -> Result<Value, Error> {
    let envelope = envelope(body)?;
    if envelope.content_type == "application/json" {
        return serde_json::from_slice(envelope.raw).map_err(|_| Error::Damaged);
    }
    decode_as(envelope.raw, envelope.api_version, envelope.kind)
}

/// Decodes an object that has no envelope, given what it is.
///
/// # Errors
/// As [`decode()`].
pub fn decode_as(raw: &[u8], api_version: &str, kind: &str) -> Result<Value, Error> {
    let table = Table::get();
    let Some(message) = table.kind(api_version, kind) else {
        return Err(Error::UnknownKind {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
        });
    };
    let mut object = Map::new();
    object.insert("apiVersion".to_owned(), api_version.into());
    object.insert("kind".to_owned(), kind.into());
    decode::message(table, message, raw, &mut object, DEPTH)?;
    if kind.ends_with("List")
        && table
            .message(message)
            .fields
            .iter()
            .any(|field| field.json == "items")
    {
        object.entry("items").or_insert_with(|| Value::Array(Vec::new()));
    }
    Ok(Value::Object(object))
}

/// Encodes an object by its `apiVersion` and `kind`, magic and envelope included. Equal objects give equal bytes.
///
/// # Errors
/// [`Error::UnknownKind`] when the kind has no protobuf form, [`Error::Field`] when a field's value does not fit.
pub fn encode(object: &Value) -> Result<Bytes, Error> {
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let table = Table::get();
    let (Some(message), Value::Object(fields)) = (table.kind(api_version, kind), object) else {
        return Err(Error::UnknownKind {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
        });
    };
    let mut out = Vec::with_capacity(512);
    out.extend_from_slice(&MAGIC);
    wire::nested(&mut out, 1, |out| {
        wire::put_bytes(out, 1, api_version.as_bytes());
        wire::put_bytes(out, 2, kind.as_bytes());
        Ok(())
    })?;
    wire::nested(&mut out, 2, |out| {
        encode::message(table, message, fields, out, DEPTH)
    })?;
    wire::put_bytes(&mut out, 3, b"");
    wire::put_bytes(&mut out, 4, b"");
    Ok(Bytes::from(out))
}

/// Brings an object of a built-in kind into the form in which Kubernetes stores and shows it: fields that Go leaves out
/// where they are empty (`omitempty`) are removed, and quantities are written in their one form. Fields that tell empty
/// from absent (pointers), items of lists, values of maps and embedded JSON stay, as do other kinds' objects and values
/// of wrong types.
///
/// # Errors
/// [`Error::Field`] for what is no quantity, [`Error::TooDeep`].
pub fn normalize(object: &mut Value, quantities: Quantities) -> Result<(), Error> {
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    let table = Table::get();
    match (table.kind(text("apiVersion"), text("kind")), object) {
        (Some(place), Value::Object(fields)) => normal::message(table, place, fields, quantities, DEPTH),
        _ => Ok(()),
    }
}

/// Frames a watch event around an object that [`encode()`] made: four bytes of length, then the event.
#[must_use]
pub fn watch_frame(event: &str, object: &[u8]) -> Bytes {
    let mut inner = Vec::with_capacity(object.len() + 8);
    wire::put_bytes(&mut inner, 1, object);
    let mut message = Vec::with_capacity(inner.len() + event.len() + 16);
    wire::put_bytes(&mut message, 1, event.as_bytes());
    wire::put_bytes(&mut message, 2, &inner);
    let mut frame = BytesMut::with_capacity(message.len() + 4);
    frame.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    frame.put_slice(&message);
    frame.freeze()
}

/// Encodes an object and frames it as a watch event of a type (`ADDED`, `BOOKMARK`, …).
///
/// # Errors
/// As [`encode()`].
pub fn encode_watch_event(event: &str, object: &Value) -> Result<Bytes, Error> {
    Ok(watch_frame(event, &encode(object)?))
}

/// One event of a watch stream as it lies in the stream's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchFrame<'a> {
    /// The event's type.
    pub event: &'a str,
    /// The object, in the form that [`decode()`] takes.
    pub object: &'a [u8],
    /// How many bytes of the stream the frame took.
    pub taken: usize,
}

/// Splits the first watch event off a stream; `None` while it is not there in full.
///
/// # Errors
/// [`Error::FrameTooLarge`], or [`Error::Damaged`] when the frame is no event.
pub fn next_watch_frame(stream: &[u8]) -> Result<Option<WatchFrame<'_>>, Error> {
    let Some((length, rest)) = stream.split_first_chunk::<4>() else {
        return Ok(None);
    };
    let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
    if length > FRAME {
        return Err(Error::FrameTooLarge(length));
    }
    let Some(mut message) = rest.get(..length) else {
        return Ok(None);
    };
    let mut found = WatchFrame {
        event: "",
        object: &[],
        taken: length + 4,
    };
    while let Some((number, wire)) = wire::tag(&mut message)? {
        match (number, wire) {
            (1, wire::BYTES) => found.event = wire::text(wire::bytes(&mut message)?)?,
            (2, wire::BYTES) => {
                let mut inner = wire::bytes(&mut message)?;
                while let Some((number, wire)) = wire::tag(&mut inner)? {
                    match (number, wire) {
                        (1, wire::BYTES) => found.object = wire::bytes(&mut inner)?,
                        _ => wire::skip(&mut inner, wire, number, DEPTH)?,
                    }
                }
            }
            _ => wire::skip(&mut message, wire, number, DEPTH)?,
        }
    }
    Ok(Some(found))
}

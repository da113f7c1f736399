//! The protobuf wire format: varints, tags, lengths.

use crate::protobuf::Error;

/// Wire type of integers and booleans.
pub(crate) const VARINT: u8 = 0;
/// Wire type of doubles.
pub(crate) const FIXED64: u8 = 1;
/// Wire type of text, bytes and messages.
pub(crate) const BYTES: u8 = 2;
const GROUP: u8 = 3;
const GROUP_END: u8 = 4;
const FIXED32: u8 = 5;

/// Takes a varint.
pub(crate) fn varint(from: &mut &[u8]) -> Result<u64, Error> {
    let mut value = 0u64;
    for (i, byte) in from.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f)
            .checked_shl(7 * u32::try_from(i).unwrap_or(0))
            .unwrap_or(0);
        if byte & 0x80 == 0 {
            *from = &from[i + 1..];
            return Ok(value);
        }
    }
    Err(Error::Damaged)
}

/// Takes a field's number and wire type; `None` at the end.
pub(crate) fn tag(from: &mut &[u8]) -> Result<Option<(u32, u8)>, Error> {
    if from.is_empty() {
        return Ok(None);
    }
    let tag = varint(from)?;
    let wire = u8::try_from(tag & 7).unwrap_or(7);
    match u32::try_from(tag >> 3) {
        Ok(number) if number > 0 => Ok(Some((number, wire))),
        _ => Err(Error::Damaged),
    }
}

/// Takes a length and that many bytes.
pub(crate) fn bytes<'a>(from: &mut &'a [u8]) -> Result<&'a [u8], Error> {
    let length = usize::try_from(varint(from)?).map_err(|_| Error::Damaged)?;
    let (taken, rest) = from.split_at_checked(length).ok_or(Error::Damaged)?;
    *from = rest;
    Ok(taken)
}

/// Takes eight bytes, least significant first.
pub(crate) fn fixed64(from: &mut &[u8]) -> Result<u64, Error> {
    let (taken, rest) = from.split_first_chunk::<8>().ok_or(Error::Damaged)?;
    *from = rest;
    Ok(u64::from_le_bytes(*taken))
}

/// Bytes as text.
pub(crate) fn text(bytes: &[u8]) -> Result<&str, Error> {
    std::str::from_utf8(bytes).map_err(|_| Error::field("must be valid UTF-8"))
}

/// Passes over a field's value.
pub(crate) fn skip(from: &mut &[u8], wire: u8, number: u32, depth: usize) -> Result<(), Error> {
    match wire {
        VARINT => varint(from).map(drop),
        FIXED64 => fixed64(from).map(drop),
        BYTES => bytes(from).map(drop),
        FIXED32 => {
            *from = from.get(4..).ok_or(Error::Damaged)?;
            Ok(())
        }
        GROUP => {
            let depth = depth.checked_sub(1).ok_or(Error::TooDeep)?;
            loop {
                match tag(from)? {
                    None => return Err(Error::Damaged),
                    Some((end, GROUP_END)) => {
                        return if end == number {
                            Ok(())
                        } else {
                            Err(Error::Damaged)
                        };
                    }
                    Some((inner, wire)) => skip(from, wire, inner, depth)?,
                }
            }
        }
        _ => Err(Error::Damaged),
    }
}

/// Appends a varint.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(low_bits(value) | 0x80);
        value >>= 7;
    }
    out.push(low_bits(value));
}

fn low_bits(value: u64) -> u8 {
    u8::try_from(value & 0x7f).unwrap_or(0)
}

/// Appends a field's number and wire type.
pub(crate) fn put_tag(out: &mut Vec<u8>, number: u32, wire: u8) {
    put_varint(out, (u64::from(number) << 3) | u64::from(wire));
}

/// Appends a field of bytes or text.
pub(crate) fn put_bytes(out: &mut Vec<u8>, number: u32, value: &[u8]) {
    put_tag(out, number, BYTES);
    put_varint(out, u64::try_from(value.len()).unwrap_or(u64::MAX));
    out.extend_from_slice(value);
}

/// Appends an integer field.
pub(crate) fn put_int(out: &mut Vec<u8>, number: u32, value: i64) {
    put_tag(out, number, VARINT);
    put_varint(out, value.cast_unsigned());
}

/// Appends a field of eight bytes.
pub(crate) fn put_double(out: &mut Vec<u8>, number: u32, value: f64) {
    put_tag(out, number, FIXED64);
    out.extend_from_slice(&value.to_bits().to_le_bytes());
}

/// Appends a message field; its length goes in front once its body is written.
pub(crate) fn nested<T>(out: &mut Vec<u8>, number: u32, body: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    put_tag(out, number, BYTES);
    // most messages are short: one byte is held for the length, and a longer one moves the body
    let at = out.len();
    out.push(0);
    let answer = body(out);
    let length = out.len() - at - 1;
    match u8::try_from(length) {
        Ok(short) if short < 0x80 => out[at] = short,
        _ => {
            let mut prefix = Vec::with_capacity(10);
            put_varint(&mut prefix, u64::try_from(length).unwrap_or(u64::MAX));
            out.splice(at..=at, prefix);
        }
    }
    answer
}

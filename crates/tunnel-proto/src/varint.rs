//! Go's signed varints (`encoding/binary.PutVarint`): zig-zag, then base 128, least significant group first.

use bytes::BufMut;

/// The longest encoding of 64 bits.
pub(crate) const MAX_LEN: usize = 10;

/// Appends one number.
pub(crate) fn put(out: &mut impl BufMut, value: i64) {
    let mut rest = (value.cast_unsigned() << 1) ^ (value >> 63).cast_unsigned();
    while rest >= 0x80 {
        out.put_u8((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    out.put_u8(rest as u8);
}

/// Reads one number; gives it with the count of bytes it took. `None` if it is cut off or exceeds 64 bits.
pub(crate) fn get(bytes: &[u8]) -> Option<(i64, usize)> {
    let mut value = 0_u64;
    for (index, byte) in bytes.iter().take(MAX_LEN).enumerate() {
        let group = u64::from(byte & 0x7f);
        if index == MAX_LEN - 1 && group > 1 {
            return None;
        }
        value |= group << (7 * index);
        if byte & 0x80 == 0 {
            let half = (value >> 1).cast_signed();
            return Some((half ^ -((value & 1).cast_signed()), index + 1));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The right column is what Go 1.26's `binary.PutVarint` writes.
    #[test]
    fn encodes_as_go_does() {
        let table: &[(i64, &[u8])] = &[
            (0, &[0]),
            (1, &[2]),
            (-1, &[1]),
            (2, &[4]),
            (63, &[126]),
            (64, &[128, 1]),
            (15_000, &[176, 234, 1]),
            (i64::MAX, &[254, 255, 255, 255, 255, 255, 255, 255, 255, 1]),
            (i64::MIN, &[255, 255, 255, 255, 255, 255, 255, 255, 255, 1]),
        ];
        for (value, expected) in table {
            let mut out = Vec::new();
            put(&mut out, *value);
            assert_eq!(out, *expected, "{value}");
            assert_eq!(get(&out), Some((*value, out.len())), "{value}");
        }
    }

    #[test]
    fn refuses_cut_off_and_oversized_numbers() {
        assert_eq!(get(&[]), None);
        assert_eq!(get(&[0x80]), None);
        assert_eq!(get(&[0xff; 10]), None);
        assert_eq!(
            get(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]),
            None
        );
    }
}

//! What a ping says: how often its sender pings. Whoever promises that is missed as soon as it falls silent; the
//! original's pings are empty and promise nothing.

use std::time::Duration;

use bytes::Bytes;

/// Before the milliseconds in a ping's payload (at most 125 bytes, RFC 6455 section 5.5).
const PREFIX: &[u8] = b"every-ms=";

/// The payload of a ping by one who pings this often.
pub(crate) fn promise(every: Duration) -> Bytes {
    let mut payload = PREFIX.to_vec();
    payload.extend_from_slice(every.as_millis().to_string().as_bytes());
    payload.into()
}

/// How often the sender of a ping pings, if it says so.
pub(crate) fn promised(payload: &[u8]) -> Option<Duration> {
    let digits = std::str::from_utf8(payload.strip_prefix(PREFIX)?).ok()?;
    digits
        .parse::<u32>()
        .ok()
        .map(|every| Duration::from_millis(every.into()))
}

/// How long one who pings this often may be silent: a ping may come late, two may not.
pub(crate) fn patience(every: Duration) -> Duration {
    every * 5 / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_is_understood_and_nothing_else_is() {
        let every = Duration::from_secs(2);
        assert_eq!(promised(&promise(every)), Some(every));
        for other in [
            &b""[..],
            b"every-ms=",
            b"every-ms=-1",
            b"every-ms=1.5",
            b"every-ms=99999999999",
            b"2000",
            &[0xff; 125],
        ] {
            assert_eq!(promised(other), None, "{other:?}");
        }
    }
}

//! Fuzz bodies: any bytes from a peer, and what must hold after them.

use std::time::Duration;

use bytes::Bytes;

use crate::{Config, Event, Frame, Incoming, Kind, Limits, Outgoing, Read, Role, Session};

/// One message: decoding never panics, and what decodes encodes to something that decodes to the same.
pub fn fuzz_frame(bytes: &[u8]) {
    if let Ok(frame) = Frame::decode(Bytes::copy_from_slice(bytes)) {
        let again = Frame::decode(frame.encode()).expect("an encoded frame decodes");
        assert_eq!(frame, again);
        if let Kind::Data(payload) = &frame.kind {
            assert!(bytes.ends_with(payload));
        }
    }
}

/// A whole conversation with both roles: each message is a byte, whose low bits are its length and whose highest makes
/// it a ping, and that many bytes; memory stays bounded.
pub fn fuzz_session(bytes: &[u8]) {
    let limits = Limits {
        pause_above: 64,
        resume_below: 16,
        conn_inbox_hard: 256,
        session_inbox_soft: 256,
        session_inbox_hard: 512,
        max_conns: 4,
        ..Limits::default()
    };
    for role in [Role::Hub, Role::Agent] {
        let config = Config {
            role,
            client_key: "fuzz".to_owned(),
            session_key: 1,
            first_frame: 7,
            limits: limits.clone(),
        };
        let mut session = Session::new(config, Duration::ZERO);
        let mut now = Duration::ZERO;
        if role == Role::Hub {
            session.dial("tcp", "a:1").expect("a new session dials");
        }
        let mut rest = bytes;
        while let Some((length, tail)) = rest.split_first() {
            let (is_ping, length) = (*length & 0x80 != 0, *length & 0x7f);
            let (message, tail) = tail.split_at(tail.len().min(usize::from(length)));
            rest = tail;
            now += Duration::from_millis(u64::from(length));
            let message = Bytes::copy_from_slice(message);
            let message = if is_ping {
                Incoming::Ping(message)
            } else {
                Incoming::Binary(message)
            };
            session.handle_message(message, now);
            session.handle_timeout(now);
            drain(&mut session, now, length % 3);
            let stats = session.stats();
            assert!(stats.inbox_bytes <= limits.session_inbox_hard, "{stats:?}");
            assert!(stats.conns <= limits.max_conns, "{stats:?}");
        }
    }
}

fn drain(session: &mut Session, now: Duration, mode: u8) {
    while let Some(event) = session.poll_event() {
        match event {
            Event::Opened { conn, .. } => match mode {
                0 => session.fail(conn, "refused"),
                1 => session.release(conn, now),
                _ => {
                    session.write(conn, b"hello");
                    assert!(
                        !matches!(session.read(conn, 8), Read::Bytes(_)),
                        "no bytes can be there yet"
                    );
                }
            },
            Event::Readable(conn) => while let Read::Bytes(_) = session.read(conn, 8) {},
            Event::Writable(_) | Event::Ended(_) => {}
        }
    }
    while let Some(message) = session.poll_transmit() {
        if let Outgoing::Frame(bytes) = message {
            Frame::decode(bytes).expect("a session sends frames");
        }
    }
}

use super::*;
use crate::Limits;

const START: Duration = Duration::ZERO;

fn config(role: Role) -> Config {
    Config {
        role,
        client_key: "edge-7".to_owned(),
        session_key: 9,
        first_frame: 100,
        limits: Limits {
            pause_above: 100,
            resume_below: 20,
            conn_inbox_hard: 400,
            session_inbox_soft: 300,
            session_inbox_hard: 600,
            conn_outbox: 50,
            max_conns: 3,
            ..Limits::default()
        },
    }
}

/// A session that has sent its first ping.
fn session(role: Role) -> Session {
    let mut session = Session::new(config(role), START);
    assert_eq!(sent(&mut session), ["ping"]);
    session
}

fn receive(session: &mut Session, conn: i64, kind: Kind) {
    let frame = Frame {
        id: 1,
        conn: ConnId(conn),
        kind,
    };
    session.handle_message(Incoming::Binary(frame.encode()), START);
}

fn connect(session: &mut Session, conn: i64, target: &str) {
    receive(
        session,
        conn,
        Kind::Connect(Bytes::copy_from_slice(target.as_bytes())),
    );
}

fn data(session: &mut Session, conn: i64, size: usize) {
    receive(session, conn, Kind::Data(vec![7; size].into()));
}

/// Everything the session wants to send, as `conn:what`.
fn sent(session: &mut Session) -> Vec<String> {
    std::iter::from_fn(|| session.poll_transmit())
        .map(|message| match message {
            Outgoing::Ping(_) => "ping".to_owned(),
            Outgoing::Close => "close".to_owned(),
            Outgoing::Frame(bytes) => {
                let frame = Frame::decode(bytes).unwrap();
                let what = match frame.kind {
                    Kind::Data(bytes) => format!("data {}", bytes.len()),
                    Kind::Connect(target) => format!("connect {}", String::from_utf8_lossy(&target)),
                    Kind::Error(text) => format!("error {text}"),
                    Kind::Pause => "pause".to_owned(),
                    Kind::Resume => "resume".to_owned(),
                    Kind::AddClient | Kind::RemoveClient | Kind::Unknown(_) => {
                        panic!("a session never sends this")
                    }
                };
                format!("{}:{what}", frame.conn)
            }
        })
        .collect()
}

fn events(session: &mut Session) -> Vec<Event> {
    std::iter::from_fn(|| session.poll_event()).collect()
}

#[test]
fn a_hub_numbers_streams_from_two_and_writes_at_once() {
    let mut hub = session(Role::Hub);
    let first = hub.dial("tcp", "10.0.0.1:443").unwrap();
    assert_eq!(hub.write(first, b"hello"), Write::Accepted(5));
    assert_eq!(hub.write(first, b" again"), Write::Accepted(6));
    hub.dial("tcp", "b:1").unwrap();
    assert_eq!(
        sent(&mut hub),
        ["2:connect tcp/10.0.0.1:443", "3:connect tcp/b:1", "2:data 11"]
    );
}

#[test]
fn a_hub_refuses_to_dial_for_an_agent() {
    let mut hub = session(Role::Hub);
    connect(&mut hub, 2, "tcp/internal:443");
    assert_eq!(
        hub.ended(),
        Some(&SessionEnd::Protocol("an agent asked the hub to dial"))
    );
    assert_eq!(sent(&mut hub), ["close"]);
    assert_eq!(session(Role::Agent).dial("tcp", "a:1"), Err(DialError::Role));
}

#[test]
fn what_breaks_the_protocol_ends_the_session() {
    let mut agent = session(Role::Agent);
    agent.handle_message(Incoming::Text, START);
    assert_eq!(
        agent.ended(),
        Some(&SessionEnd::Protocol("a message is not binary"))
    );
    let mut agent = session(Role::Agent);
    connect(&mut agent, 2, "noslash");
    assert!(matches!(agent.ended(), Some(SessionEnd::Protocol(_))));
    let mut agent = session(Role::Agent);
    agent.handle_message(Incoming::Binary(Bytes::from_static(&[0x80])), START);
    assert!(matches!(agent.ended(), Some(SessionEnd::Frame(_))));
    let mut agent = session(Role::Agent);
    agent.handle_message(Incoming::Binary(vec![0; (4 << 20) + 1].into()), START);
    assert!(matches!(agent.ended(), Some(SessionEnd::Frame(_))));
}

#[test]
fn unknown_streams_get_one_error_for_data_and_silence_for_the_rest() {
    let mut hub = session(Role::Hub);
    data(&mut hub, 55, 1);
    data(&mut hub, 55, 1);
    receive(&mut hub, 56, Kind::Pause);
    receive(&mut hub, 56, Kind::Error("EOF".to_owned()));
    receive(&mut hub, 56, Kind::Unknown(99));
    assert_eq!(sent(&mut hub), ["55:error no stream edge-7/9/55"]);
    assert_eq!(hub.ended(), None);
}

#[test]
fn a_peers_error_is_echoed_once_and_read_after_the_buffered_bytes() {
    let mut hub = session(Role::Hub);
    let conn = hub.dial("tcp", "a:1").unwrap();
    sent(&mut hub);
    assert_eq!(hub.read(conn, 10), Read::Blocked);
    data(&mut hub, 2, 5);
    receive(&mut hub, 2, Kind::Error("dial tcp a:1: refused".to_owned()));
    receive(&mut hub, 2, Kind::Error("dial tcp a:1: refused".to_owned()));
    assert_eq!(sent(&mut hub), ["2:error dial tcp a:1: refused"]);
    assert_eq!(events(&mut hub), [Event::Readable(conn)]);
    let reason = CloseReason::Error("dial tcp a:1: refused".to_owned());
    assert_eq!(hub.write(conn, b"x"), Write::Closed(reason.clone()));
    assert_eq!(hub.read(conn, 10), Read::Bytes(Bytes::from_static(&[7; 5])));
    assert_eq!(hub.read(conn, 10), Read::Closed(reason));
    hub.release(conn, START);
    assert_eq!(hub.stats().conns, 0);
}

#[test]
fn shutdown_sends_the_last_bytes_then_eof() {
    let mut hub = session(Role::Hub);
    let conn = hub.dial("tcp", "a:1").unwrap();
    hub.write(conn, b"bye");
    hub.shutdown(conn);
    assert_eq!(hub.write(conn, b"x"), Write::Closed(CloseReason::Local));
    assert_eq!(sent(&mut hub), ["2:connect tcp/a:1", "2:data 3", "2:error EOF"]);
    assert_eq!(hub.read(conn, 10), Read::Closed(CloseReason::Local));
}

#[test]
fn a_released_stream_lingers_for_a_paused_peer_but_not_for_ever() {
    let mut hub = session(Role::Hub);
    let conn = hub.dial("tcp", "a:1").unwrap();
    sent(&mut hub);
    receive(&mut hub, 2, Kind::Pause);
    hub.write(conn, b"bye");
    hub.release(conn, START);
    assert_eq!(sent(&mut hub), Vec::<String>::new());
    let mut late = session(Role::Hub);
    std::mem::swap(&mut late, &mut hub);
    late.handle_message(Incoming::Pong, LINGER);
    late.handle_timeout(LINGER);
    assert_eq!(
        sent(&mut late),
        ["ping", "2:error the peer did not take the last bytes in time"]
    );
    assert_eq!(late.stats().conns, 0);
}

#[test]
fn pause_blocks_the_writer_and_resume_frees_it() {
    let mut hub = session(Role::Hub);
    let conn = hub.dial("tcp", "a:1").unwrap();
    sent(&mut hub);
    receive(&mut hub, 2, Kind::Pause);
    assert_eq!(hub.write(conn, &[0; 80]), Write::Accepted(50));
    assert_eq!(hub.write(conn, &[0; 30]), Write::Blocked);
    assert_eq!(sent(&mut hub), Vec::<String>::new());
    receive(&mut hub, 2, Kind::Resume);
    assert_eq!(sent(&mut hub), ["2:data 50"]);
    assert_eq!(events(&mut hub), [Event::Writable(conn)]);
}

#[test]
fn both_ends_may_pause_each_other_at_once() {
    let mut hub = session(Role::Hub);
    let conn = hub.dial("tcp", "a:1").unwrap();
    sent(&mut hub);
    receive(&mut hub, 2, Kind::Pause);
    data(&mut hub, 2, 101);
    assert_eq!(
        sent(&mut hub),
        ["2:pause"],
        "being paused does not hide that the peer has to be"
    );
    hub.write(conn, b"x");
    assert!(matches!(hub.read(conn, 90), Read::Bytes(_)));
    assert_eq!(
        sent(&mut hub),
        ["2:resume"],
        "resuming the peer does not resume this end"
    );
    receive(&mut hub, 2, Kind::Resume);
    assert_eq!(sent(&mut hub), ["2:data 1"]);
}

#[test]
fn a_peer_that_ignores_pause_loses_the_stream_only() {
    let mut agent = session(Role::Agent);
    connect(&mut agent, 2, "tcp/a:1");
    connect(&mut agent, 3, "tcp/b:1");
    for _ in 0..5 {
        data(&mut agent, 2, 100);
    }
    let out = sent(&mut agent);
    assert_eq!(
        out,
        ["2:pause", "2:error more than 400 bytes unread: pause was ignored"]
    );
    assert_eq!(agent.stats().inbox_bytes, 0);
    data(&mut agent, 3, 10);
    assert!(matches!(agent.read(ConnId(3), 10), Read::Bytes(_)));
}

#[test]
fn all_streams_together_are_bounded_and_the_greediest_pays() {
    let mut agent = session(Role::Agent);
    for conn in 2..5 {
        connect(&mut agent, conn, "tcp/a:1");
    }
    for _ in 0..4 {
        data(&mut agent, 2, 60);
        data(&mut agent, 3, 59);
    }
    data(&mut agent, 4, 30);
    sent(&mut agent);
    data(&mut agent, 4, 100);
    data(&mut agent, 4, 10);
    let out = sent(&mut agent);
    assert_eq!(out, ["2:error more than 600 bytes unread: pause was ignored"]);
    assert!(agent.stats().inbox_bytes <= 600);
}

#[test]
fn session_pressure_pauses_small_streams_and_lets_them_go_when_it_ends() {
    let mut agent = session(Role::Agent);
    for conn in 2..5 {
        connect(&mut agent, conn, "tcp/a:1");
    }
    for conn in 2..5 {
        data(&mut agent, conn, 100);
    }
    data(&mut agent, 4, 1);
    assert_eq!(sent(&mut agent), ["4:pause"]);
    agent.read(ConnId(4), 95);
    assert_eq!(sent(&mut agent), Vec::<String>::new(), "still too much in all");
    agent.read(ConnId(2), 100);
    assert_eq!(sent(&mut agent), ["4:resume"]);
}

#[test]
fn too_many_streams_are_refused_by_name() {
    let mut agent = session(Role::Agent);
    for conn in 2..6 {
        connect(&mut agent, conn, "tcp/a:1");
    }
    assert_eq!(sent(&mut agent), ["5:error too many streams (limit 3)"]);
    connect(&mut agent, 6, &format!("tcp/{}", "a".repeat(100)));
    assert_eq!(sent(&mut agent), ["6:error the address is longer than 100 bytes"]);
    let mut hub = session(Role::Hub);
    assert_eq!(
        hub.dial("tcp", &"a".repeat(97)),
        Err(DialError::TargetTooLong { size: 101 })
    );
    for _ in 0..3 {
        hub.dial("tcp", "a:1").unwrap();
    }
    assert_eq!(hub.dial("tcp", "a:1"), Err(DialError::TooManyConns { limit: 3 }));
}

#[test]
fn pings_and_notices_a_dead_peer() {
    let seconds = Duration::from_secs;
    let mut hub = session(Role::Hub);
    let conn = hub.dial("tcp", "a:1").unwrap();
    sent(&mut hub);
    hub.read(conn, 1);
    assert_eq!(hub.poll_timeout(), Some(seconds(2)));
    hub.handle_timeout(seconds(2));
    assert_eq!(sent(&mut hub), ["ping"]);
    hub.handle_message(Incoming::Pong, seconds(3));
    for at in [4, 6, 8, 10, 12, 14, 16] {
        hub.handle_timeout(seconds(at));
        assert_eq!(sent(&mut hub), ["ping"]);
    }
    hub.handle_timeout(seconds(17));
    assert_eq!(hub.poll_timeout(), Some(seconds(18)));
    hub.handle_timeout(seconds(18));
    let end = SessionEnd::PeerSilent {
        silent_for: seconds(15),
    };
    assert_eq!(
        events(&mut hub),
        [Event::Readable(conn), Event::Ended(end.clone())]
    );
    assert_eq!(hub.read(conn, 1), Read::Closed(CloseReason::Session(end)));
    assert_eq!(hub.poll_timeout(), None);
    assert_eq!(sent(&mut hub), ["close"]);
}

#[test]
fn how_soon_a_silent_peer_is_dead_depends_on_what_it_promised() {
    let cases: [(&[u8], u64); 7] = [
        (b"", 15_000),
        (b"every-ms=2000", 5_000),
        (b"every-ms=4000", 10_000),
        (b"every-ms=1", 5_000),
        (b"every-ms=0", 5_000),
        (b"every-ms=4294967295", 15_000),
        (b"anything else", 15_000),
    ];
    for (payload, expected) in cases {
        for role in [Role::Hub, Role::Agent] {
            let mut session = session(role);
            session.handle_message(Incoming::Ping(Bytes::from_static(payload)), START);
            let mut now = START;
            while session.ended().is_none() {
                now = session.poll_timeout().unwrap();
                session.handle_timeout(now);
            }
            let payload = String::from_utf8_lossy(payload);
            assert_eq!(now, Duration::from_millis(expected), "{role:?} {payload:?}");
        }
    }
}

#[test]
fn bytes_leaving_a_full_socket_are_a_sign_of_life() {
    let mut hub = session(Role::Hub);
    hub.handle_progress(Duration::from_secs(10));
    hub.handle_timeout(Duration::from_secs(20));
    assert_eq!(hub.ended(), None);
}

#[test]
fn d11_a_hundred_thousand_one_byte_frames_stay_bounded() {
    let mut agent = session(Role::Agent);
    connect(&mut agent, 2, "tcp/a:1");
    for conn in 0..100_000 {
        data(&mut agent, 2, 1);
        data(&mut agent, 10 + conn, 1);
        receive(&mut agent, 10 + conn, Kind::Error("x".to_owned()));
    }
    let stats = agent.stats();
    assert!(stats.inbox_bytes <= 400);
    assert!(sent(&mut agent).len() < 2 * MAX_UNKNOWN);
    for conn in 0..100_000 {
        connect(&mut agent, 1_000 + conn, "tcp/a:1");
    }
    assert!(sent(&mut agent).len() < 2 * MAX_UNKNOWN);
    assert!(agent.stats().conns <= 3);
}

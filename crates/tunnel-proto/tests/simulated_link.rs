//! Two sessions over a simulated link beside a reference model: whatever is done, each reader sees a prefix of what
//! the other end wrote, all of it if the writer shut down in order, and once everybody reads nothing stays stuck.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use proptest::prelude::*;
use tunnel_proto::{
    CloseReason, Config, ConnId, Event, Incoming, Limits, Outgoing, Read, Role, Session, Write,
};

#[derive(Debug, Clone)]
enum Op {
    Dial,
    Write {
        end: usize,
        conn: usize,
        size: usize,
    },
    Read {
        end: usize,
        conn: usize,
        size: usize,
    },
    Shutdown {
        end: usize,
        conn: usize,
    },
    Fail {
        end: usize,
        conn: usize,
    },
    /// The link carries so many messages from one end.
    Carry {
        end: usize,
        messages: usize,
    },
    Pass {
        millis: u64,
    },
}

fn op() -> impl Strategy<Value = Op> {
    let end = 0..2_usize;
    let conn = 0..6_usize;
    prop_oneof![
        2 => Just(Op::Dial),
        8 => (end.clone(), conn.clone(), 1..400_usize).prop_map(|(end, conn, size)| Op::Write { end, conn, size }),
        6 => (end.clone(), conn.clone(), 1..400_usize).prop_map(|(end, conn, size)| Op::Read { end, conn, size }),
        1 => (end.clone(), conn.clone()).prop_map(|(end, conn)| Op::Shutdown { end, conn }),
        1 => (end.clone(), conn).prop_map(|(end, conn)| Op::Fail { end, conn }),
        8 => (end, 1..6_usize).prop_map(|(end, messages)| Op::Carry { end, messages }),
        1 => (1..4_000_u64).prop_map(|millis| Op::Pass { millis }),
    ]
}

/// What should be true of one direction of one stream.
#[derive(Debug, Default)]
struct Direction {
    written: u64,
    read: u64,
    /// The writer ended it in order, after all its bytes.
    shut: bool,
    /// Somebody ended it otherwise, or the reader's own end closed: bytes may be lost.
    lossy: bool,
}

struct World {
    ends: [Session; 2],
    links: [VecDeque<Outgoing>; 2],
    conns: Vec<ConnId>,
    /// Streams that the agent has heard of.
    opened: Vec<ConnId>,
    model: BTreeMap<(usize, ConnId), Direction>,
    now: Duration,
}

fn limits() -> Limits {
    Limits {
        pause_above: 500,
        resume_below: 100,
        conn_inbox_hard: 1 << 20,
        session_inbox_soft: 1_200,
        session_inbox_hard: 1 << 20,
        conn_outbox: 300,
        session_outbox: 800,
        max_payload: 128,
        max_conns: 64,
        ..Limits::default()
    }
}

/// The byte that belongs at a place of a direction's stream.
fn byte_at(end: usize, conn: ConnId, at: u64) -> u8 {
    (at.wrapping_mul(31) ^ (conn.0 as u64).wrapping_mul(7) ^ (end as u64)) as u8
}

impl World {
    fn new() -> Self {
        let end = |role| {
            let config = Config {
                role,
                client_key: "c".to_owned(),
                session_key: 1,
                first_frame: i64::MAX - 5,
                limits: limits(),
            };
            Session::new(config, Duration::ZERO)
        };
        Self {
            ends: [end(Role::Hub), end(Role::Agent)],
            links: [VecDeque::new(), VecDeque::new()],
            conns: Vec::new(),
            opened: Vec::new(),
            model: BTreeMap::new(),
            now: Duration::ZERO,
        }
    }

    fn knows(&self, end: usize, conn: usize) -> Option<ConnId> {
        let known = if end == 0 { &self.conns } else { &self.opened };
        known.get(conn % known.len().max(1)).copied()
    }

    fn write(&mut self, end: usize, conn: ConnId, size: usize) {
        let direction = self.model.entry((end, conn)).or_default();
        let bytes: Vec<u8> = (0..size as u64)
            .map(|n| byte_at(end, conn, direction.written + n))
            .collect();
        match self.ends[end].write(conn, &bytes) {
            Write::Accepted(taken) => direction.written += taken as u64,
            Write::Blocked => assert!(
                self.ends[end].stats().outbox_bytes > 0,
                "blocked with nothing waiting"
            ),
            Write::Closed(_) => {}
        }
    }

    /// Gives whether anything was read.
    fn read(&mut self, end: usize, conn: ConnId, size: usize) -> bool {
        let direction = self.model.entry((1 - end, conn)).or_default();
        match self.ends[end].read(conn, size) {
            Read::Bytes(bytes) => {
                assert!(!bytes.is_empty() && bytes.len() <= size);
                for byte in bytes {
                    assert_eq!(
                        byte,
                        byte_at(1 - end, conn, direction.read),
                        "at {}",
                        direction.read
                    );
                    direction.read += 1;
                }
                assert!(direction.read <= direction.written);
                true
            }
            Read::Blocked => false,
            Read::Closed(reason) => {
                if !direction.lossy {
                    assert_eq!(reason, CloseReason::Eof);
                    assert!(direction.shut);
                    assert_eq!(
                        direction.read, direction.written,
                        "bytes before an orderly end are not lost"
                    );
                }
                false
            }
        }
    }

    fn carry(&mut self, end: usize, messages: usize) -> bool {
        let mut moved = false;
        for _ in 0..messages {
            if let Some(message) = self.ends[end].poll_transmit() {
                self.links[end].push_back(message);
                moved = true;
            }
        }
        for _ in 0..messages {
            let Some(message) = self.links[end].pop_front() else {
                break;
            };
            moved = true;
            let message = match message {
                Outgoing::Frame(bytes) => Incoming::Binary(bytes),
                Outgoing::Ping(payload) => Incoming::Ping(payload),
                Outgoing::Close => panic!("nobody closes here"),
            };
            self.ends[1 - end].handle_message(message, self.now);
        }
        self.take_events();
        moved
    }

    fn take_events(&mut self) {
        for end in 0..2 {
            while let Some(event) = self.ends[end].poll_event() {
                match event {
                    Event::Opened { conn, proto, address } => {
                        assert_eq!((proto.as_str(), address.as_str()), ("tcp", "a:1"));
                        self.opened.push(conn);
                    }
                    Event::Readable(_) | Event::Writable(_) => {}
                    Event::Ended(reason) => panic!("end {end}: {reason}"),
                }
            }
        }
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Dial => {
                if self.conns.len() < 6 {
                    self.conns
                        .push(self.ends[0].dial("tcp", "a:1").expect("there is room"));
                }
            }
            Op::Write { end, conn, size } => {
                if let Some(conn) = self.knows(end, conn) {
                    self.write(end, conn, size);
                }
            }
            Op::Read { end, conn, size } => {
                if let Some(conn) = self.knows(end, conn) {
                    self.read(end, conn, size);
                }
            }
            Op::Shutdown { end, conn } => {
                if let Some(conn) = self.knows(end, conn) {
                    self.ends[end].shutdown(conn);
                    self.model.entry((end, conn)).or_default().shut = true;
                    self.model.entry((1 - end, conn)).or_default().lossy = true;
                }
            }
            Op::Fail { end, conn } => {
                if let Some(conn) = self.knows(end, conn) {
                    self.ends[end].fail(conn, "failed");
                    self.model.entry((end, conn)).or_default().lossy = true;
                    self.model.entry((1 - end, conn)).or_default().lossy = true;
                }
            }
            Op::Carry { end, messages } => {
                self.carry(end, messages);
            }
            Op::Pass { millis } => {
                self.now += Duration::from_millis(millis);
                for end in 0..2 {
                    // The link is never silent for long here: a peer's death has its own tests.
                    self.ends[end].handle_message(Incoming::Pong, self.now);
                    self.ends[end].handle_timeout(self.now);
                }
            }
        }
        for session in &self.ends {
            let stats = session.stats();
            assert!(stats.outbox_bytes <= 800 + 300 * 6, "{stats:?}");
        }
        self.take_events();
    }

    /// Everybody reads until nothing moves any more.
    fn settle(&mut self) {
        for _ in 0..10_000 {
            let mut moved = self.carry(0, 50) | self.carry(1, 50);
            for conn in self.conns.clone() {
                moved |= self.read(0, conn, 64);
                if self.opened.contains(&conn) {
                    moved |= self.read(1, conn, 64);
                }
            }
            if !moved {
                return;
            }
        }
        panic!("the link never becomes quiet");
    }

    fn check_settled(&mut self) {
        for conn in &self.conns {
            let failed = self
                .model
                .get(&(0, *conn))
                .is_some_and(|direction| direction.lossy);
            assert!(
                failed || self.opened.contains(conn),
                "stream {conn} never arrived"
            );
        }
        for ((end, conn), direction) in &self.model {
            if !direction.lossy {
                assert_eq!(
                    direction.read, direction.written,
                    "stream {conn} from end {end} is stuck"
                );
            }
        }
        for conn in self.conns.clone() {
            for end in 0..2 {
                self.ends[end].release(conn, self.now);
            }
        }
        while self.carry(0, 50) | self.carry(1, 50) {}
        for end in &self.ends {
            let stats = end.stats();
            assert_eq!(
                (stats.conns, stats.inbox_bytes, stats.outbox_bytes),
                (0, 0, 0),
                "{stats:?}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn streams_keep_order_and_never_stick(ops in prop::collection::vec(op(), 1..200)) {
        let mut world = World::new();
        for op in &ops {
            world.apply(op);
        }
        world.settle();
        world.check_settled();
    }
}

//! One end of a tunnel: which streams are open, what each waits for, and whether the peer is alive.
//!
//! The machine does no I/O and knows no clock: `now` is the time since an origin of the shell's choosing, and never
//! goes back. After each call that takes `&mut self` the shell drains [`Session::poll_event`] and, as fast as its
//! socket takes messages, [`Session::poll_transmit`].

mod conn;
mod types;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;

use self::conn::{Conn, State};
pub use self::types::{
    CloseReason, Config, DialError, Event, Incoming, Outgoing, Read, Role, SessionEnd, Stats, Write,
};
use crate::frame::{ConnId, Frame, Kind, MAX_TEXT};
use crate::pulse;

/// Answers to Data for unknown streams that may wait to be sent; more are dropped (the peer's next Data asks again).
const MAX_UNKNOWN: usize = 1_024;

/// Frames about streams that may wait to be sent; a peer that asks for more without reading them is cut off.
const MAX_CONTROL: usize = 16_384;

/// How long bytes of a released stream may wait for a peer that has paused it.
const LINGER: Duration = Duration::from_secs(60);

/// One end of one tunnel.
#[derive(Debug)]
pub struct Session {
    config: Config,
    next_frame: i64,
    next_conn: i64,
    conns: BTreeMap<ConnId, Conn>,
    /// Streams that may have something to send, each once, in turn.
    ready: VecDeque<ConnId>,
    /// Frames without bytes of a stream. Bounded by a few for each stream.
    control: VecDeque<Frame>,
    unknown: BTreeSet<ConnId>,
    events: VecDeque<Event>,
    inbox_bytes: usize,
    outbox_bytes: usize,
    /// All streams together hold too much: no stream with unread bytes may receive.
    pressure: bool,
    ping_due: bool,
    next_ping: Duration,
    last_heard: Duration,
    /// How long the peer may be silent.
    patience: Duration,
    ended: Option<SessionEnd>,
    close_due: bool,
    stats: Stats,
}

impl Session {
    /// A session on a WebSocket that was just opened.
    pub fn new(config: Config, now: Duration) -> Self {
        Self {
            next_frame: config.first_frame,
            next_conn: 1,
            conns: BTreeMap::new(),
            ready: VecDeque::new(),
            control: VecDeque::new(),
            unknown: BTreeSet::new(),
            events: VecDeque::new(),
            inbox_bytes: 0,
            outbox_bytes: 0,
            pressure: false,
            // At once, because it says how soon this end is to be missed.
            ping_due: true,
            next_ping: now + config.limits.ping_every,
            last_heard: now,
            patience: config.limits.dead_after,
            ended: None,
            close_due: false,
            stats: Stats::default(),
            config,
        }
    }

    /// Takes one message from the peer.
    pub fn handle_message(&mut self, message: Incoming, now: Duration) {
        if self.ended.is_some() {
            return;
        }
        self.last_heard = now;
        match message {
            Incoming::Binary(bytes) => self.handle_frame(bytes),
            Incoming::Ping(payload) => self.handle_promise(&payload),
            Incoming::Pong => {}
            Incoming::Text => self.end(SessionEnd::Protocol("a message is not binary")),
            Incoming::Close => self.end(SessionEnd::PeerClosed),
        }
    }

    /// A peer that says how often it pings is missed sooner; how soon, it does not decide alone.
    fn handle_promise(&mut self, payload: &[u8]) {
        if let Some(every) = pulse::promised(payload) {
            let limits = &self.config.limits;
            self.patience = pulse::patience(every)
                .max(pulse::patience(limits.ping_every))
                .min(limits.dead_after);
        }
    }

    /// Bytes moved that are no whole message yet: some came in, or the socket took some after it had been full. Somebody
    /// at the far side is there.
    pub fn handle_progress(&mut self, now: Duration) {
        self.last_heard = self.last_heard.max(now);
    }

    /// Ends the session if the peer is silent for too long, else pings when it is time.
    pub fn handle_timeout(&mut self, now: Duration) {
        if self.ended.is_some() {
            return;
        }
        if now >= self.last_heard + self.patience {
            let silent_for = now.saturating_sub(self.last_heard);
            self.end(SessionEnd::PeerSilent { silent_for });
            return;
        }
        if now >= self.next_ping {
            self.ping_due = true;
            self.next_ping = now + self.config.limits.ping_every;
        }
        let stuck: Vec<ConnId> = self
            .conns
            .iter()
            .filter(|(_, conn)| conn.released_at.is_some_and(|at| now >= at + LINGER))
            .map(|(id, _)| *id)
            .collect();
        for id in stuck {
            self.fail(id, "the peer did not take the last bytes in time");
        }
    }

    /// When [`Session::handle_timeout`] wants its next call; `None` once the session has ended.
    pub fn poll_timeout(&self) -> Option<Duration> {
        match self.ended {
            Some(_) => None,
            None => Some(self.next_ping.min(self.last_heard + self.patience)),
        }
    }

    /// What happened; drain until `None`.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The next message for the peer. Call it only when the socket can take one: what is not taken stays bounded here.
    pub fn poll_transmit(&mut self) -> Option<Outgoing> {
        if self.ended.is_some() {
            return std::mem::take(&mut self.close_due).then_some(Outgoing::Close);
        }
        if std::mem::take(&mut self.ping_due) {
            return Some(Outgoing::Ping(pulse::promise(self.config.limits.ping_every)));
        }
        if let Some(mut frame) = self.control.pop_front() {
            frame.id = self.frame_id();
            return Some(self.sent(frame.encode()));
        }
        if let Some(conn) = self.unknown.pop_first() {
            let text = format!(
                "no stream {}/{}/{conn}",
                self.config.client_key, self.config.session_key
            );
            let frame = Frame {
                id: self.frame_id(),
                conn,
                kind: Kind::Error(text),
            };
            return Some(self.sent(frame.encode()));
        }
        while let Some(id) = self.ready.pop_front() {
            let Some(conn) = self.conns.get_mut(&id) else {
                continue;
            };
            conn.queued = false;
            let Some((bytes, payload)) = conn.take_frame() else {
                continue;
            };
            self.outbox_bytes -= payload;
            let wake = conn.want_write && conn.outbox_bytes <= self.config.limits.conn_outbox / 2;
            if wake {
                conn.want_write = false;
                self.events.push_back(Event::Writable(id));
            }
            if conn.has_frame_to_send() {
                conn.queued = true;
                self.ready.push_back(id);
            }
            self.finish_flushing(id);
            return Some(self.sent(bytes));
        }
        None
    }

    /// Whether [`Session::poll_transmit`] may give a message.
    pub fn wants_transmit(&self) -> bool {
        match self.ended {
            Some(_) => self.close_due,
            None => {
                self.ping_due
                    || !self.control.is_empty()
                    || !self.unknown.is_empty()
                    || !self.ready.is_empty()
            }
        }
    }

    /// Opens a stream to an address at the far side; bytes may be written at once. There is no answer to wait for: a
    /// failed dial ends the stream with the dial's text.
    ///
    /// # Errors
    /// The role does not dial, the target is too long for the wire, too many streams, or the session has ended.
    pub fn dial(&mut self, proto: &str, address: &str) -> Result<ConnId, DialError> {
        if let Some(end) = &self.ended {
            return Err(DialError::Ended(end.clone()));
        }
        match self.config.role {
            Role::Hub => {}
            Role::Agent => return Err(DialError::Role),
        }
        let target = format!("{proto}/{address}");
        if target.len() > MAX_TEXT {
            return Err(DialError::TargetTooLong { size: target.len() });
        }
        if self.conns.len() >= self.config.limits.max_conns {
            self.stats.refused_conns += 1;
            return Err(DialError::TooManyConns {
                limit: self.config.limits.max_conns,
            });
        }
        self.next_conn += 1;
        let id = ConnId(self.next_conn);
        let mut conn = Conn::new();
        let frame = Frame {
            id: self.frame_id(),
            conn: id,
            kind: Kind::Connect(target.into()),
        };
        conn.push_connect(&frame);
        self.conns.insert(id, conn);
        self.stats.opened_conns += 1;
        self.queue(id);
        Ok(id)
    }

    /// Takes bytes to send on a stream, as many as there is room for.
    pub fn write(&mut self, id: ConnId, bytes: &[u8]) -> Write {
        let limits = &self.config.limits;
        let crowded = self.outbox_bytes >= limits.session_outbox;
        let room = if crowded {
            limits.conn_outbox.min(16 << 10)
        } else {
            limits.conn_outbox
        };
        let frame = self.next_frame;
        let Some(conn) = self.conns.get_mut(&id) else {
            return Write::Closed(CloseReason::Local);
        };
        match &conn.state {
            State::Open => {}
            State::Flushing => return Write::Closed(CloseReason::Local),
            State::Ended(reason) => return Write::Closed(reason.clone()),
        }
        let size = bytes
            .len()
            .min(limits.max_payload)
            .min(room.saturating_sub(conn.outbox_bytes));
        if size == 0 && !bytes.is_empty() {
            conn.want_write = true;
            return Write::Blocked;
        }
        conn.push_data(frame, id, &bytes[..size], limits.max_payload);
        self.next_frame = self.next_frame.wrapping_add(1);
        self.outbox_bytes += size;
        self.queue(id);
        Write::Accepted(size)
    }

    /// Gives received bytes, at most `max`. What arrived before the stream's end is given before the end.
    pub fn read(&mut self, id: ConnId, max: usize) -> Read {
        let Some(conn) = self.conns.get_mut(&id) else {
            return Read::Closed(CloseReason::Local);
        };
        let Some(bytes) = conn.inbox.pop(max) else {
            return match &conn.state {
                State::Open | State::Flushing => {
                    conn.want_read = true;
                    Read::Blocked
                }
                State::Ended(reason) => Read::Closed(reason.clone()),
            };
        };
        self.inbox_bytes -= bytes.len();
        self.stats.bytes_read += bytes.len() as u64;
        self.relieve(id);
        Read::Bytes(bytes)
    }

    /// Ends a stream in good order: what was written is sent, then `EOF`. Both directions end (the protocol has no
    /// half-close); what was received before stays readable.
    pub fn shutdown(&mut self, id: ConnId) {
        if let Some(conn) = self.conns.get_mut(&id)
            && matches!(conn.state, State::Open)
        {
            conn.state = State::Flushing;
            self.finish_flushing(id);
        }
    }

    /// Whether everything that was written on a stream has been handed to the socket (or will never be).
    pub fn is_flushed(&self, id: ConnId) -> bool {
        self.conns.get(&id).is_none_or(|conn| conn.outbox_bytes == 0)
    }

    /// Asks for [`Event::Writable`] once more of the stream's bytes have gone.
    pub fn want_writable(&mut self, id: ConnId) {
        if let Some(conn) = self.conns.get_mut(&id) {
            conn.want_write = true;
        }
    }

    /// Ends a stream with an error text for the peer, such as a failed dial's; nothing more is sent or received.
    pub fn fail(&mut self, id: ConnId, text: &str) {
        let Some(conn) = self.conns.get(&id) else { return };
        match conn.state {
            State::Open | State::Flushing => {
                if !conn.is_unannounced() {
                    self.control.push_back(error_frame(id, text));
                }
                self.finish(id, CloseReason::Error(text.to_owned()));
                self.drop_inbox(id);
            }
            State::Ended(_) => {}
        }
    }

    /// The stream's owner is gone: shuts it down if it is open, and forgets it when its last bytes are sent.
    pub fn release(&mut self, id: ConnId, now: Duration) {
        self.shutdown(id);
        self.drop_inbox(id);
        if let Some(conn) = self.conns.get_mut(&id) {
            match conn.state {
                State::Open | State::Flushing => {
                    conn.released_at = Some(now);
                    conn.want_read = false;
                    conn.want_write = false;
                }
                State::Ended(_) => {
                    self.conns.remove(&id);
                }
            }
        }
    }

    /// Ends the session from this side.
    pub fn close(&mut self, reason: SessionEnd) {
        self.end(reason);
    }

    /// Why the session ended, once it has.
    pub fn ended(&self) -> Option<&SessionEnd> {
        self.ended.as_ref()
    }

    /// Counters and sizes.
    pub fn stats(&self) -> Stats {
        Stats {
            conns: self.conns.len(),
            inbox_bytes: self.inbox_bytes,
            outbox_bytes: self.outbox_bytes,
            ..self.stats
        }
    }

    fn handle_frame(&mut self, bytes: Bytes) {
        self.stats.frames_in += 1;
        self.stats.bytes_in += bytes.len() as u64;
        let limit = self.config.limits.max_message;
        if bytes.len() > limit {
            let error = crate::FrameError::TooLong {
                size: bytes.len(),
                limit,
            };
            return self.end(SessionEnd::Frame(error));
        }
        let frame = match Frame::decode(bytes) {
            Ok(frame) => frame,
            Err(error) => return self.end(SessionEnd::Frame(error)),
        };
        let id = frame.conn;
        match frame.kind {
            Kind::Connect(target) => self.handle_connect(id, &target),
            Kind::Data(bytes) => self.handle_data(id, bytes),
            Kind::Error(text) => self.handle_error(id, text),
            Kind::Pause => {
                if let Some(conn) = self.on_wire(id) {
                    conn.paused_by_peer = true;
                }
            }
            Kind::Resume => {
                if let Some(conn) = self.on_wire(id) {
                    conn.paused_by_peer = false;
                    self.queue(id);
                }
            }
            Kind::AddClient | Kind::RemoveClient | Kind::Unknown(_) => {}
        }
        if self.control.len() > MAX_CONTROL {
            self.end(SessionEnd::Protocol("it does not read the answers to its frames"));
        }
    }

    fn handle_connect(&mut self, id: ConnId, target: &[u8]) {
        match self.config.role {
            Role::Hub => return self.end(SessionEnd::Protocol("an agent asked the hub to dial")),
            Role::Agent => {}
        }
        let text = String::from_utf8_lossy(target);
        let Some((proto, address)) = text.split_once('/') else {
            return self.end(SessionEnd::Protocol("a Connect frame names no protocol"));
        };
        if self.conns.contains_key(&id) {
            return self.end(SessionEnd::Protocol(
                "a Connect frame names a stream that is open",
            ));
        }
        let limit = self.config.limits.max_conns;
        if target.len() > MAX_TEXT {
            let text = format!("the address is longer than {MAX_TEXT} bytes");
            self.refuse(id, &text);
        } else if self.conns.len() >= limit {
            self.refuse(id, &format!("too many streams (limit {limit})"));
        } else {
            self.conns.insert(id, Conn::new());
            self.stats.opened_conns += 1;
            self.events.push_back(Event::Opened {
                conn: id,
                proto: proto.to_owned(),
                address: address.to_owned(),
            });
        }
    }

    /// Refuses a stream that was never opened. At most [`MAX_UNKNOWN`] refusals wait to be sent.
    fn refuse(&mut self, id: ConnId, text: &str) {
        self.stats.refused_conns += 1;
        if self.control.len() < MAX_UNKNOWN + 4 * self.conns.len() {
            self.control.push_back(error_frame(id, text));
        } else {
            self.stats.dropped_replies += 1;
        }
    }

    fn handle_data(&mut self, id: ConnId, bytes: Bytes) {
        let size = bytes.len();
        let limits = self.config.limits.clone();
        let Some(conn) = self.on_wire(id) else {
            if self.unknown.len() < MAX_UNKNOWN {
                self.unknown.insert(id);
            } else {
                self.stats.dropped_replies += 1;
            }
            return;
        };
        if conn.released_at.is_some() || size == 0 {
            return;
        }
        conn.inbox.push(bytes);
        let held = conn.inbox.len();
        let wake = std::mem::take(&mut conn.want_read);
        self.inbox_bytes += size;
        if wake {
            self.events.push_back(Event::Readable(id));
        }
        if self.inbox_bytes > limits.session_inbox_soft {
            self.pressure = true;
        }
        if held > limits.conn_inbox_hard {
            self.overflow(id, limits.conn_inbox_hard);
        } else if self.inbox_bytes > limits.session_inbox_hard {
            let largest = self
                .conns
                .iter()
                .max_by_key(|(id, conn)| (conn.inbox.len(), **id))
                .map(|(id, _)| *id);
            self.overflow(largest.unwrap_or(id), limits.session_inbox_hard);
        } else if held > limits.pause_above || self.pressure {
            self.pause(id);
        }
    }

    fn overflow(&mut self, id: ConnId, limit: usize) {
        self.stats.overflowed_conns += 1;
        self.fail(id, &format!("more than {limit} bytes unread: pause was ignored"));
    }

    fn handle_error(&mut self, id: ConnId, text: String) {
        if self.on_wire(id).is_none() {
            return;
        }
        self.control.push_back(error_frame(id, &text));
        let reason = if text == "EOF" {
            CloseReason::Eof
        } else {
            CloseReason::Error(text)
        };
        self.finish(id, reason);
    }

    fn pause(&mut self, id: ConnId) {
        if let Some(conn) = self.conns.get_mut(&id)
            && !conn.pausing_peer
        {
            conn.pausing_peer = true;
            self.stats.pauses_sent += 1;
            self.control.push_back(Frame {
                id: 0,
                conn: id,
                kind: Kind::Pause,
            });
        }
    }

    /// Lets peers go on after bytes were read (or dropped) from one stream.
    fn relieve(&mut self, id: ConnId) {
        if self.pressure && self.inbox_bytes <= self.config.limits.session_inbox_soft / 2 {
            self.pressure = false;
            let paused: Vec<ConnId> = self
                .conns
                .iter()
                .filter(|(_, conn)| conn.pausing_peer)
                .map(|(id, _)| *id)
                .collect();
            for id in paused {
                self.resume_if_low(id);
            }
        } else {
            self.resume_if_low(id);
        }
    }

    fn resume_if_low(&mut self, id: ConnId) {
        let pressure = self.pressure;
        let below = self.config.limits.resume_below;
        if let Some(conn) = self.on_wire(id)
            && conn.pausing_peer
            && (conn.inbox.len() == 0 || (conn.inbox.len() < below && !pressure))
        {
            conn.pausing_peer = false;
            self.control.push_back(Frame {
                id: 0,
                conn: id,
                kind: Kind::Resume,
            });
        }
    }

    /// The stream, if the peer has it in its table too.
    fn on_wire(&mut self, id: ConnId) -> Option<&mut Conn> {
        self.conns
            .get_mut(&id)
            .filter(|conn| !matches!(conn.state, State::Ended(_)))
    }

    fn finish_flushing(&mut self, id: ConnId) {
        if let Some(conn) = self.conns.get(&id)
            && matches!(conn.state, State::Flushing)
            && conn.outbox_is_empty()
        {
            self.control.push_back(error_frame(id, "EOF"));
            self.finish(id, CloseReason::Local);
        }
    }

    /// Takes a stream off the wire; its unread bytes stay unless nobody is left to read them.
    fn finish(&mut self, id: ConnId, reason: CloseReason) {
        let Some(conn) = self.conns.get_mut(&id) else {
            return;
        };
        self.outbox_bytes -= conn.clear_outbox();
        conn.state = State::Ended(reason);
        if std::mem::take(&mut conn.want_read) {
            self.events.push_back(Event::Readable(id));
        }
        if std::mem::take(&mut conn.want_write) {
            self.events.push_back(Event::Writable(id));
        }
        if conn.released_at.is_some() {
            self.conns.remove(&id);
        }
    }

    fn drop_inbox(&mut self, id: ConnId) {
        if let Some(conn) = self.conns.get_mut(&id) {
            self.inbox_bytes -= conn.inbox.len();
            conn.inbox.clear();
            self.relieve(id);
        }
    }

    fn end(&mut self, reason: SessionEnd) {
        if self.ended.is_some() {
            return;
        }
        self.ended = Some(reason.clone());
        self.close_due = true;
        self.control.clear();
        self.unknown.clear();
        let ids: Vec<ConnId> = self.conns.keys().copied().collect();
        for id in ids {
            if self.on_wire(id).is_some() {
                self.finish(id, CloseReason::Session(reason.clone()));
            }
        }
        self.events.push_back(Event::Ended(reason));
    }

    fn queue(&mut self, id: ConnId) {
        if let Some(conn) = self.conns.get_mut(&id)
            && !conn.queued
            && conn.has_frame_to_send()
        {
            conn.queued = true;
            self.ready.push_back(id);
        }
    }

    fn frame_id(&mut self) -> i64 {
        let id = self.next_frame;
        self.next_frame = id.wrapping_add(1);
        id
    }

    fn sent(&mut self, bytes: Bytes) -> Outgoing {
        self.stats.frames_out += 1;
        self.stats.bytes_out += bytes.len() as u64;
        Outgoing::Frame(bytes)
    }
}

fn error_frame(conn: ConnId, text: &str) -> Frame {
    Frame {
        id: 0,
        conn,
        kind: Kind::Error(text.to_owned()),
    }
}

#[cfg(test)]
mod tests;

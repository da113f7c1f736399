//! What answers on the streams of a SPDY session: a forwarded port, or a command.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::commands::Output;
use crate::exec::outcome;
use crate::said::Said;
use crate::spdy::{Event, Session, StreamHeaders};
use crate::world::{name, namespace};

/// Streams that one session may have at a time.
const MAX_STREAMS: usize = 256;

/// Answers a session's events.
pub(crate) trait Streams: Send {
    fn handle(&mut self, event: Event, session: &mut Session);

    /// Passes on what is said without being asked.
    fn tell(&mut self, said: Said, session: &mut Session);

    /// Whether everything is said.
    fn is_done(&self) -> bool;
}

/// What a client talks to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// A command that has run.
    Ran(Output),
    /// What goes on: it says this first, and copies its input to its output if it reads any.
    Runs {
        /// That it is simulated; empty for a command.
        notice: String,
        /// What it has printed.
        printed: String,
        /// Whether it copies.
        copies: bool,
    },
}

impl Task {
    /// The same on a terminal, which has one output, and a cursor to take back to the beginning of a line.
    pub(crate) fn on_terminal(self) -> Self {
        let lines = |text: String| text.replace('\n', "\r\n");
        match self {
            Self::Ran(output) => Self::Ran(Output {
                stdout: lines(output.stdout + &output.stderr),
                stderr: String::new(),
                code: output.code,
            }),
            Self::Runs {
                notice,
                printed,
                copies,
            } => Self::Runs {
                notice: lines(notice),
                printed: lines(printed),
                copies,
            },
        }
    }
}

/// What a terminal's input looks like in its output, and whether it ends there (Ctrl-C and Ctrl-D).
pub(crate) fn typed(bytes: &[u8], terminal: bool) -> (Vec<u8>, bool) {
    if !terminal {
        return (bytes.to_vec(), false);
    }
    let end = bytes.iter().position(|byte| matches!(byte, 3 | 4));
    let line: Vec<u8> = bytes[..end.unwrap_or(bytes.len())]
        .iter()
        .flat_map(|byte| {
            if *byte == b'\r' {
                &b"\r\n"[..]
            } else {
                std::slice::from_ref(byte)
            }
        })
        .copied()
        .collect();
    (line, end.is_some())
}

/// Forwarded connections (`portforward.k8s.io`): two streams each, for bytes and for errors, with one request id.
pub(crate) struct Forward {
    pod: Value,
    /// Open data streams.
    connections: BTreeMap<u32, Connection>,
    /// Streams for errors, by request id.
    errors: BTreeMap<String, u32>,
    done: bool,
}

struct Connection {
    port: String,
    request: String,
    /// What came of a request so far; `None` once bytes are echoed.
    head: Option<Vec<u8>>,
}

/// What pairs two streams may have this many bytes; clients count.
const MAX_REQUEST_ID: usize = 64;
/// A request's head may have this many bytes.
const MAX_HEAD: usize = 16 << 10;
const METHODS: [&[u8]; 7] = [
    b"GET ",
    b"HEAD ",
    b"POST ",
    b"PUT ",
    b"PATCH ",
    b"DELETE ",
    b"OPTIONS ",
];

impl Forward {
    pub(crate) fn new(pod: Value) -> Self {
        Self {
            pod,
            connections: BTreeMap::new(),
            errors: BTreeMap::new(),
            done: false,
        }
    }

    fn open(&mut self, stream: u32, headers: &StreamHeaders, session: &mut Session) {
        let header = |name: &str| headers.get(name).map(String::as_str).unwrap_or_default();
        let (port, request) = (header("port").parse::<u16>(), header("requestid").to_owned());
        let full = self.connections.len() + self.errors.len() >= MAX_STREAMS;
        let Ok(port) = port.map(|port| port.to_string()) else {
            return session.refuse(stream);
        };
        if full || request.len() > MAX_REQUEST_ID {
            return session.refuse(stream);
        }
        match header("streamtype") {
            "error" => {
                session.accept(stream);
                self.errors.insert(request, stream);
            }
            "data" => {
                session.accept(stream);
                if self.listens_on(&port) {
                    let connection = Connection {
                        port,
                        request,
                        head: Some(Vec::new()),
                    };
                    self.connections.insert(stream, connection);
                } else {
                    let text = format!(
                        "pod \"{}/{}\" is simulated by tombolo and declares no port {port}: connection refused",
                        namespace(&self.pod),
                        name(&self.pod)
                    );
                    self.end(stream, &request, &text, session);
                }
            }
            _ => session.refuse(stream),
        }
    }

    /// A container listens on the ports that it declares; one that declares none listens on all.
    fn listens_on(&self, port: &str) -> bool {
        let containers = self.pod["spec"]["containers"].as_array().into_iter().flatten();
        let mut ports = containers
            .filter_map(|container| container["ports"].as_array())
            .flatten()
            .map(|declared| declared["containerPort"].to_string())
            .peekable();
        ports.peek().is_none() || ports.any(|declared| declared == port)
    }

    fn take(&mut self, stream: u32, bytes: &[u8], session: &mut Session) {
        let Some(connection) = self.connections.get_mut(&stream) else {
            return;
        };
        let Some(head) = &mut connection.head else {
            return session.send(stream, bytes);
        };
        head.extend_from_slice(bytes);
        if !METHODS.iter().any(|method| head.starts_with(method)) || head.len() > MAX_HEAD {
            session.send(stream, head);
            connection.head = None;
            return;
        }
        if !head.windows(4).any(|end| end == b"\r\n\r\n") {
            return;
        }
        let text = format!(
            "{}/{} port {}: simulated by tombolo, nothing runs here\n",
            namespace(&self.pod),
            name(&self.pod),
            connection.port
        );
        let body = if head.starts_with(b"HEAD ") { "" } else { &text };
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            text.len()
        );
        session.send(stream, answer.as_bytes());
        let request = connection.request.clone();
        self.end(stream, &request, "", session);
    }

    /// Ends a connection, with an error if there is one.
    fn end(&mut self, stream: u32, request: &str, error: &str, session: &mut Session) {
        self.connections.remove(&stream);
        if let Some(errors) = self.errors.remove(request) {
            session.send(errors, error.as_bytes());
            session.finish(errors);
        }
        session.finish(stream);
    }
}

impl Streams for Forward {
    fn handle(&mut self, event: Event, session: &mut Session) {
        match event {
            Event::Opened { stream, headers } => self.open(stream, &headers, session),
            Event::Data { stream, bytes } => self.take(stream, &bytes, session),
            Event::Finished { stream } | Event::Reset { stream } => {
                // That the client says nothing on the stream for errors is how it should be.
                if let Some(connection) = self.connections.get(&stream) {
                    let request = connection.request.clone();
                    self.end(stream, &request, "", session);
                }
            }
            Event::GoneAway => self.done = true,
        }
    }

    fn tell(&mut self, _: Said, _: &mut Session) {}

    fn is_done(&self) -> bool {
        self.done
    }
}

/// A command, or a container that a client attaches to (`v4.channel.k8s.io`): a stream each for its input, its outputs and how it ended.
pub(crate) struct Exec {
    task: Task,
    terminal: bool,
    /// The streams that the client said it would open.
    wanted: Vec<&'static str>,
    open: BTreeMap<String, u32>,
    /// Input that came before all streams were open.
    early: Vec<u8>,
    input_ended: bool,
    over: bool,
    state: State,
}

#[derive(PartialEq, Eq)]
enum State {
    /// Until all streams are open.
    Opening,
    /// Goes on until it ends, or the input that it copies.
    Running,
    /// Everything is said.
    Done,
}

impl Exec {
    /// `wanted` are the names of the streams that the client opens.
    pub(crate) fn new(task: Task, terminal: bool, wanted: Vec<&'static str>) -> Self {
        Self {
            task,
            terminal,
            wanted,
            open: BTreeMap::new(),
            early: Vec::new(),
            input_ended: false,
            over: false,
            state: State::Opening,
        }
    }

    fn start(&mut self, session: &mut Session) {
        if self.state != State::Opening || !self.wanted.iter().all(|name| self.open.contains_key(*name)) {
            return;
        }
        match &self.task {
            Task::Ran(output) => {
                self.print("stdout", output.stdout.as_bytes(), session);
                self.print("stderr", output.stderr.as_bytes(), session);
                let code = output.code;
                self.end(code, session);
            }
            Task::Runs {
                notice,
                printed,
                copies,
            } => {
                let place = if self.open.contains_key("stderr") {
                    "stderr"
                } else {
                    "stdout"
                };
                self.print(place, notice.as_bytes(), session);
                self.print("stdout", printed.as_bytes(), session);
                self.input_ended |= *copies && !self.open.contains_key("stdin");
                self.state = State::Running;
                let early = std::mem::take(&mut self.early);
                self.copy(&early, session);
                if self.over {
                    self.end(0, session);
                }
            }
        }
    }

    fn print(&self, name: &str, bytes: &[u8], session: &mut Session) {
        if let Some(stream) = self.open.get(name).filter(|_| !bytes.is_empty()) {
            session.send(*stream, bytes);
        }
    }

    fn copies(&self) -> bool {
        matches!(self.task, Task::Runs { copies: true, .. })
    }

    fn copy(&mut self, bytes: &[u8], session: &mut Session) {
        if !self.copies() {
            return;
        }
        let (line, ends) = typed(bytes, self.terminal);
        self.print("stdout", &line, session);
        if ends || self.input_ended {
            self.end(0, session);
        }
    }

    fn end(&mut self, code: i32, session: &mut Session) {
        if std::mem::replace(&mut self.state, State::Done) == State::Done {
            return;
        }
        if let Some(status) = self.open.get("error") {
            session.send(*status, outcome(code).to_string().as_bytes());
        }
        for stream in self.open.values() {
            session.finish(*stream);
        }
    }
}

impl Streams for Exec {
    fn handle(&mut self, event: Event, session: &mut Session) {
        let is_input = |open: &BTreeMap<String, u32>, stream: u32| open.get("stdin") == Some(&stream);
        match event {
            Event::Opened { stream, headers } => {
                let kind = headers.get("streamtype").cloned().unwrap_or_default();
                if self.open.len() >= 5 || self.open.contains_key(&kind) {
                    return session.refuse(stream);
                }
                session.accept(stream);
                self.open.insert(kind, stream);
                self.start(session);
            }
            Event::Data { stream, bytes } if is_input(&self.open, stream) => match self.state {
                // Kept within bounds: more than that before the other streams are open is no honest client's.
                State::Opening if self.early.len() < 1 << 20 => self.early.extend(bytes),
                State::Running => self.copy(&bytes, session),
                State::Opening | State::Done => {}
            },
            Event::Finished { stream } if is_input(&self.open, stream) => {
                self.input_ended = true;
                if self.state == State::Running && self.copies() {
                    self.end(0, session);
                }
            }
            Event::Data { .. } | Event::Finished { .. } | Event::Reset { .. } => {}
            Event::GoneAway => self.state = State::Done,
        }
    }

    fn tell(&mut self, said: Said, session: &mut Session) {
        match (&self.state, said) {
            (State::Running, Said::Line(line)) => self.print("stdout", line.as_bytes(), session),
            (State::Running, Said::Over) => self.end(0, session),
            (State::Opening, Said::Over) => self.over = true,
            (State::Opening | State::Done, _) => {}
        }
    }

    fn is_done(&self) -> bool {
        self.state == State::Done
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::exec::task;
    use crate::spdy::tests::Peer;

    /// A client, a session and what answers in it.
    struct Pair<S> {
        peer: Peer,
        session: Session,
        streams: S,
    }

    impl<S: Streams> Pair<S> {
        fn new(streams: S) -> Self {
            Self {
                peer: Peer::new(),
                session: Session::new(),
                streams,
            }
        }

        /// Does what the client does; says what it sees: `STREAM text`, `STREAM end`, `STREAM refused`.
        fn exchange(&mut self, act: impl FnOnce(&mut Peer) -> Vec<u8>) -> Vec<String> {
            let bytes = act(&mut self.peer);
            self.session.receive(&bytes);
            while let Some(event) = self.session.poll_event().unwrap() {
                self.streams.handle(event, &mut self.session);
            }
            let output = self.session.take_output();
            let seen = self.peer.read(&output).into_iter();
            seen.map(|event| match event {
                Event::Data { stream, bytes } => format!("{stream} {}", String::from_utf8(bytes).unwrap()),
                Event::Finished { stream } => format!("{stream} end"),
                Event::Reset { stream } => format!("{stream} refused"),
                other @ (Event::Opened { .. } | Event::GoneAway) => panic!("{other:?}"),
            })
            .collect()
        }

        /// What the client sees once something is said by itself.
        fn tell(&mut self, said: Said) -> Vec<String> {
            self.streams.tell(said, &mut self.session);
            self.exchange(|_| Vec::new())
        }

        fn open(&mut self, stream: u32, headers: &[(&str, &str)]) -> Vec<String> {
            self.exchange(|peer| peer.open(stream, headers))
        }
    }

    fn pod() -> Value {
        json!({"metadata": {"name": "web", "namespace": "shop"},
            "spec": {"containers": [{"name": "c", "ports": [{"containerPort": 80}]}]}})
    }

    fn connect(pair: &mut Pair<Forward>, first: u32, port: &str) -> Vec<String> {
        let id = first.to_string();
        let mut seen = pair.open(
            first,
            &[("streamtype", "error"), ("port", port), ("requestid", &id)],
        );
        seen.extend(pair.exchange(|peer| peer.finish(first)));
        seen.extend(pair.open(
            first + 2,
            &[("streamtype", "data"), ("port", port), ("requestid", &id)],
        ));
        seen
    }

    #[test]
    fn a_forwarded_port_answers_http_and_echoes_the_rest() {
        let mut pair = Pair::new(Forward::new(pod()));
        assert!(connect(&mut pair, 1, "80").is_empty());
        assert!(
            pair.exchange(|peer| peer.send(3, b"GET / HTTP/1.1\r\n"))
                .is_empty()
        );
        let page = pair.exchange(|peer| peer.send(3, b"host: x\r\n\r\n"));
        assert!(page[0].starts_with("3 HTTP/1.1 200 OK"), "{page:?}");
        assert!(
            page[0].ends_with("shop/web port 80: simulated by tombolo, nothing runs here\n"),
            "{page:?}"
        );
        assert_eq!(page[1..], ["1 end", "3 end"]);
        assert!(connect(&mut pair, 5, "80").is_empty());
        assert_eq!(pair.exchange(|peer| peer.send(7, b"hello")), ["7 hello"]);
        assert_eq!(pair.exchange(|peer| peer.send(7, b"GET ")), ["7 GET "]);
        assert_eq!(pair.exchange(|peer| peer.finish(7)), ["5 end", "7 end"]);
    }

    #[test]
    fn a_port_that_is_not_declared_refuses() {
        let mut pair = Pair::new(Forward::new(pod()));
        let seen = connect(&mut pair, 1, "81");
        assert!(
            seen[0].contains("declares no port 81: connection refused"),
            "{seen:?}"
        );
        assert_eq!(seen[1..], ["1 end", "3 end"]);
        let mut silent = pod();
        silent["spec"]["containers"][0]["ports"] = Value::Null;
        let mut pair = Pair::new(Forward::new(silent));
        assert!(connect(&mut pair, 1, "81").is_empty());
        assert_eq!(pair.open(5, &[("streamtype", "video")]), ["5 refused"]);
    }

    fn exec(command: &[&str], wanted: &[&'static str]) -> Pair<Exec> {
        let command: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
        Pair::new(Exec::new(task(&pod(), &command), false, wanted.to_vec()))
    }

    #[test]
    fn a_command_starts_once_its_streams_are_open() {
        let mut pair = exec(&["echo", "hi"], &["error", "stdout"]);
        assert!(pair.open(1, &[("streamtype", "error")]).is_empty());
        let seen = pair.open(3, &[("streamtype", "stdout")]);
        assert_eq!(seen[0], "3 hi\n");
        assert!(seen[1].contains("\"Success\""), "{seen:?}");
        assert_eq!(seen[2..], ["1 end", "3 end"]);
        assert!(pair.streams.is_done());
        let mut failing = exec(&["false"], &["error"]);
        let seen = failing.open(1, &[("streamtype", "error")]);
        assert!(seen[0].contains("NonZeroExitCode"), "{seen:?}");
    }

    #[test]
    fn cat_copies_its_input_until_that_ends() {
        let mut pair = exec(&["cat"], &["error", "stdin", "stdout"]);
        pair.open(1, &[("streamtype", "error")]);
        pair.open(3, &[("streamtype", "stdin")]);
        assert!(pair.exchange(|peer| peer.send(3, b"early ")).is_empty());
        assert_eq!(pair.open(5, &[("streamtype", "stdout")]), ["5 early "]);
        assert_eq!(pair.exchange(|peer| peer.send(3, b"late")), ["5 late"]);
        let end = pair.exchange(|peer| peer.finish(3));
        assert!(
            end[0].contains("\"Success\"") && pair.streams.is_done(),
            "{end:?}"
        );
        let mut without_input = exec(&["cat"], &["error"]);
        let end = without_input.open(1, &[("streamtype", "error")]);
        assert!(end[0].contains("\"Success\""), "{end:?}");
    }

    fn attached(printed: &str, copies: bool, terminal: bool, wanted: &[&'static str]) -> Pair<Exec> {
        let task = Task::Runs {
            notice: "simulated\n".to_owned(),
            printed: printed.to_owned(),
            copies,
        };
        let mut pair = Pair::new(Exec::new(task, terminal, wanted.to_vec()));
        for (stream, name) in [1, 3, 5, 7].into_iter().zip(&wanted[..wanted.len() - 1]) {
            assert!(pair.open(stream, &[("streamtype", *name)]).is_empty());
        }
        pair
    }

    #[test]
    fn who_attaches_is_told_what_is_said_until_the_container_ends() {
        let mut pair = attached("hi\n", false, false, &["error", "stdin", "stdout", "stderr"]);
        let seen = pair.open(7, &[("streamtype", "stderr")]);
        assert_eq!(seen, ["7 simulated\n", "5 hi\n"]);
        assert!(pair.exchange(|peer| peer.send(3, b"unread")).is_empty());
        assert!(pair.exchange(|peer| peer.finish(3)).is_empty());
        let seen = pair.tell(Said::Line("more\n".to_owned()));
        assert_eq!(seen, ["5 more\n"]);
        let end = pair.tell(Said::Over);
        assert!(
            end[0].contains("\"Success\"") && pair.streams.is_done(),
            "{end:?}"
        );
        assert!(pair.tell(Said::Over).is_empty());

        let mut early = attached("hi\n", false, true, &["error", "stdout"]);
        assert!(early.tell(Said::Over).is_empty());
        let seen = early.open(3, &[("streamtype", "stdout")]);
        assert_eq!(seen[..2], ["3 simulated\n", "3 hi\n"]);
        assert!(early.streams.is_done());
    }

    #[test]
    fn a_terminal_ends_lines_and_its_input() {
        let mut pair = attached("", true, true, &["error", "stdin", "stdout"]);
        assert_eq!(pair.open(5, &[("streamtype", "stdout")]), ["5 simulated\n"]);
        assert_eq!(pair.exchange(|peer| peer.send(3, b"ls\r")), ["5 ls\r\n"]);
        let end = pair.exchange(|peer| peer.send(3, b"x\x04y"));
        assert_eq!(end[0], "5 x");
        assert!(pair.streams.is_done(), "{end:?}");
        let failed = task(&pod(), &["nginx".to_owned()]).on_terminal();
        let Task::Ran(output) = failed else {
            panic!("{failed:?}");
        };
        assert!(
            output.stdout.ends_with("exit\r\n") && output.stderr.is_empty(),
            "{output:?}"
        );
        for (bytes, terminal, seen) in [
            (&b"a\r\x03b"[..], true, (&b"a\r\n"[..], true)),
            (b"a\r\x04b", false, (b"a\r\x04b", false)),
            (b"", true, (b"", false)),
        ] {
            let (line, ends) = typed(bytes, terminal);
            assert_eq!((&line[..], ends), seen, "{bytes:?}");
        }
    }
}

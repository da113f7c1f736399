//! The far end of a SPDY/3.1 session as kubectl opens it on an upgraded connection (draft-mbelshe-httpbis-spdy-00 with
//! the header blocks of version 3): frames and streams, without sockets.
//!
//! Only what `exec` and `port-forward` use: streams that the client opens, data both ways, pings. Flow control windows
//! are not kept, as the client's own library does not.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress};

/// A data frame may have this many bytes; clients send 32 KiB.
const MAX_DATA: usize = 1 << 20;
/// A control frame may have this many bytes, also when its headers are unpacked.
const MAX_CONTROL: usize = 16 << 10;

const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GOAWAY: u16 = 7;
const HEADERS: u16 = 8;

const FIN: u8 = 1;
/// The status of a stream that is not taken.
const REFUSED: u32 = 3;

/// What header blocks are packed with (the draft's appendix): words with their length, then a text.
static DICTIONARY: LazyLock<Vec<u8>> = LazyLock::new(|| {
    const WORDS: &str = "options|head|post|put|delete|trace|accept|accept-charset|accept-encoding|accept-language|\
        accept-ranges|age|allow|authorization|cache-control|connection|content-base|content-encoding|\
        content-language|content-length|content-location|content-md5|content-range|content-type|date|etag|expect|\
        expires|from|host|if-match|if-modified-since|if-none-match|if-range|if-unmodified-since|last-modified|\
        location|max-forwards|pragma|proxy-authenticate|proxy-authorization|range|referer|retry-after|server|te|\
        trailer|transfer-encoding|upgrade|user-agent|vary|via|warning|www-authenticate|method|get|status|200 OK|\
        version|HTTP/1.1|url|public|set-cookie|keep-alive|origin";
    const TEXT: &str = "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505\
        203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized\
        403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable\
        Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT\
        chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,\
        text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.";
    let mut dictionary = Vec::with_capacity(1_423);
    for word in WORDS.split('|') {
        dictionary.extend(u32::try_from(word.len()).unwrap_or(0).to_be_bytes());
        dictionary.extend(word.as_bytes());
    }
    dictionary.extend(TEXT.as_bytes());
    dictionary
});

/// Headers of a stream, by their name in lower case.
pub(crate) type StreamHeaders = BTreeMap<String, String>;

/// What a client did.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// It opened a stream; [`Session::accept`] or [`Session::refuse`] answers.
    Opened { stream: u32, headers: StreamHeaders },
    /// It sent bytes on a stream.
    Data { stream: u32, bytes: Vec<u8> },
    /// It sends nothing more on a stream.
    Finished { stream: u32 },
    /// It wants nothing more of a stream.
    Reset { stream: u32 },
    /// It ends the session.
    GoneAway,
}

/// Why a session cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    #[error("a frame of version {0} instead of 3")]
    Version(u16),
    #[error("a frame of {length} bytes (limit {limit})")]
    TooLong { length: usize, limit: usize },
    #[error("a frame that is too short for its type")]
    TooShort,
    #[error("headers that cannot be unpacked")]
    Headers,
}

/// One session: bytes in, events and bytes out.
pub(crate) struct Session {
    input: Vec<u8>,
    /// So much of the input is done with.
    done: usize,
    /// A frame may be two events; this is the second.
    next: Option<Event>,
    output: Vec<u8>,
    unpack: Decompress,
    pack: Compress,
}

impl Session {
    pub(crate) fn new() -> Self {
        let mut pack = Compress::new(Compression::fast(), true);
        pack.set_dictionary(&DICTIONARY)
            .expect("a new stream takes a dictionary");
        Self {
            input: Vec::new(),
            done: 0,
            next: None,
            output: Vec::new(),
            unpack: Decompress::new(true),
            pack,
        }
    }

    /// Takes bytes from the client. Poll all events before the next ones, so that no more than a frame waits.
    pub(crate) fn receive(&mut self, bytes: &[u8]) {
        self.input.drain(..std::mem::take(&mut self.done));
        self.input.extend_from_slice(bytes);
    }

    /// What came, as long as there is something.
    pub(crate) fn poll_event(&mut self) -> Result<Option<Event>, Fault> {
        loop {
            if let Some(event) = self.next.take() {
                return Ok(Some(event));
            }
            let Some((head, rest)) = self.input[self.done..].split_first_chunk::<8>() else {
                return Ok(None);
            };
            let is_control = head[0] & 0x80 != 0;
            let flags = head[4];
            let length = usize::from(head[5]) << 16 | usize::from(head[6]) << 8 | usize::from(head[7]);
            let limit = if is_control { MAX_CONTROL } else { MAX_DATA };
            if length > limit {
                return Err(Fault::TooLong { length, limit });
            }
            if rest.len() < length {
                return Ok(None);
            }
            let first = u32::from_be_bytes([head[0] & 0x7f, head[1], head[2], head[3]]);
            let frame = rest[..length].to_vec();
            self.done += 8 + length;
            let event = if is_control {
                let (version, kind) = ((first >> 16) as u16, first as u16);
                if version != 3 {
                    return Err(Fault::Version(version));
                }
                self.control(kind, flags, &frame)?
            } else {
                if flags & FIN != 0 {
                    self.next = Some(Event::Finished { stream: first });
                }
                (!frame.is_empty()).then_some(Event::Data {
                    stream: first,
                    bytes: frame,
                })
            };
            if event.is_some() {
                return Ok(event);
            }
        }
    }

    fn control(&mut self, kind: u16, flags: u8, frame: &[u8]) -> Result<Option<Event>, Fault> {
        let number = |at: usize| {
            let bytes = frame.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
            bytes
                .map(|bytes| u32::from_be_bytes(bytes) & 0x7fff_ffff)
                .ok_or(Fault::TooShort)
        };
        match kind {
            SYN_STREAM => {
                let stream = number(0)?;
                let headers = self.unpack(frame.get(10..).ok_or(Fault::TooShort)?)?;
                if flags & FIN != 0 {
                    self.next = Some(Event::Finished { stream });
                }
                Ok(Some(Event::Opened { stream, headers }))
            }
            // Read, because what follows is packed with regard to it.
            HEADERS => {
                self.unpack(frame.get(4..).ok_or(Fault::TooShort)?)?;
                Ok(None)
            }
            RST_STREAM => Ok(Some(Event::Reset { stream: number(0)? })),
            PING => {
                number(0)?;
                self.frame(PING, 0, frame);
                Ok(None)
            }
            GOAWAY => Ok(Some(Event::GoneAway)),
            // Settings, windows and what nobody knows.
            _ => Ok(None),
        }
    }

    /// Answers that a stream is open.
    pub(crate) fn accept(&mut self, stream: u32) {
        let mut frame = stream.to_be_bytes().to_vec();
        // A block of no headers.
        let block = self.packed(&0_u32.to_be_bytes());
        frame.extend(block);
        self.frame(SYN_REPLY, 0, &frame);
    }

    /// Answers that a stream is not taken.
    pub(crate) fn refuse(&mut self, stream: u32) {
        let frame = [stream.to_be_bytes(), REFUSED.to_be_bytes()].concat();
        self.frame(RST_STREAM, 0, &frame);
    }

    /// Sends bytes on a stream.
    pub(crate) fn send(&mut self, stream: u32, bytes: &[u8]) {
        for part in bytes.chunks(32 << 10) {
            self.data(stream, 0, part);
        }
    }

    /// Says that nothing more comes on a stream.
    pub(crate) fn finish(&mut self, stream: u32) {
        self.data(stream, FIN, &[]);
    }

    /// What is to be sent to the client.
    pub(crate) fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    fn data(&mut self, stream: u32, flags: u8, bytes: &[u8]) {
        self.output.extend(stream.to_be_bytes());
        self.put_length(flags, bytes.len());
        self.output.extend_from_slice(bytes);
    }

    fn frame(&mut self, kind: u16, flags: u8, bytes: &[u8]) {
        self.output.extend(0x8003_u16.to_be_bytes());
        self.output.extend(kind.to_be_bytes());
        self.put_length(flags, bytes.len());
        self.output.extend_from_slice(bytes);
    }

    fn put_length(&mut self, flags: u8, length: usize) {
        let length = u32::try_from(length).expect("frames are short").to_be_bytes();
        self.output.extend([flags, length[1], length[2], length[3]]);
    }

    fn packed(&mut self, block: &[u8]) -> Vec<u8> {
        let mut packed = Vec::with_capacity(block.len() + 64);
        self.pack
            .compress_vec(block, &mut packed, FlushCompress::Sync)
            .expect("a stream with room packs anything");
        packed
    }

    fn unpack(&mut self, block: &[u8]) -> Result<StreamHeaders, Fault> {
        let mut text = vec![0; MAX_CONTROL];
        let start = (self.unpack.total_in(), self.unpack.total_out());
        let done = |unpack: &Decompress| {
            let since = |total: u64, start: u64| usize::try_from(total - start).unwrap_or(usize::MAX);
            (
                since(unpack.total_in(), start.0),
                since(unpack.total_out(), start.1),
            )
        };
        loop {
            let (read, written) = done(&self.unpack);
            if read >= block.len() {
                text.truncate(written);
                return parse(&text).ok_or(Fault::Headers);
            }
            let step = self
                .unpack
                .decompress(&block[read..], &mut text[written..], FlushDecompress::Sync);
            match step {
                Ok(_) if done(&self.unpack) == (read, written) => return Err(Fault::Headers),
                Ok(_) => {}
                Err(error) if error.needs_dictionary().is_some() => {
                    self.unpack
                        .set_dictionary(&DICTIONARY)
                        .map_err(|_| Fault::Headers)?;
                }
                Err(_) => return Err(Fault::Headers),
            }
        }
    }
}

/// A header block: how many, then names and values, each with its length.
fn parse(block: &[u8]) -> Option<StreamHeaders> {
    fn number(rest: &mut &[u8]) -> Option<usize> {
        let (head, tail) = rest.split_first_chunk::<4>()?;
        *rest = tail;
        usize::try_from(u32::from_be_bytes(*head)).ok()
    }
    fn text(rest: &mut &[u8]) -> Option<String> {
        let length = number(rest)?;
        let (head, tail) = rest.split_at_checked(length)?;
        *rest = tail;
        Some(String::from_utf8_lossy(head).into_owned())
    }
    let mut rest = block;
    let count = number(&mut rest)?;
    let mut headers = StreamHeaders::new();
    for _ in 0..count {
        let name = text(&mut rest)?.to_ascii_lowercase();
        headers.insert(name, text(&mut rest)?);
    }
    Some(headers)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The client's end, for tests: packs headers as kubectl does.
    pub(crate) struct Peer(Session);

    impl Peer {
        pub(crate) fn new() -> Self {
            Self(Session::new())
        }

        pub(crate) fn open(&mut self, stream: u32, headers: &[(&str, &str)]) -> Vec<u8> {
            let mut block = u32::try_from(headers.len()).unwrap().to_be_bytes().to_vec();
            for text in headers.iter().flat_map(|(name, value)| [name, value]) {
                block.extend(u32::try_from(text.len()).unwrap().to_be_bytes());
                block.extend(text.as_bytes());
            }
            let mut frame = stream.to_be_bytes().to_vec();
            frame.extend([0; 6]);
            frame.extend(self.0.packed(&block));
            self.0.frame(SYN_STREAM, 0, &frame);
            self.0.take_output()
        }

        pub(crate) fn send(&mut self, stream: u32, bytes: &[u8]) -> Vec<u8> {
            self.0.send(stream, bytes);
            self.0.take_output()
        }

        pub(crate) fn finish(&mut self, stream: u32) -> Vec<u8> {
            self.0.finish(stream);
            self.0.take_output()
        }

        /// The events in what the other end sent.
        pub(crate) fn read(&mut self, bytes: &[u8]) -> Vec<Event> {
            self.0.receive(bytes);
            std::iter::from_fn(|| self.0.poll_event().unwrap()).collect()
        }
    }

    fn events(session: &mut Session) -> Vec<Event> {
        std::iter::from_fn(|| session.poll_event().unwrap()).collect()
    }

    #[test]
    fn the_dictionary_is_the_drafts() {
        // Its Adler-32, which is also what a stream that asks for it names.
        let sums = DICTIONARY.iter().fold((1_u32, 0_u32), |(a, b), byte| {
            let a = (a + u32::from(*byte)) % 65_521;
            (a, (b + a) % 65_521)
        });
        assert_eq!((DICTIONARY.len(), sums.1 << 16 | sums.0), (1_423, 0xe3c6_a7c2));
    }

    #[test]
    fn streams_open_carry_bytes_and_end_however_the_bytes_are_cut() {
        for step in [1, 7, 10_000] {
            let (mut peer, mut session) = (Peer::new(), Session::new());
            let mut bytes = peer.open(1, &[("streamtype", "error"), ("port", "80")]);
            bytes.extend(peer.open(3, &[("streamtype", "data"), ("port", "80")]));
            bytes.extend(peer.send(3, b"hello"));
            bytes.extend(peer.finish(3));
            let mut seen = Vec::new();
            for part in bytes.chunks(step) {
                session.receive(part);
                seen.extend(events(&mut session));
            }
            let headers = |kind: &str| {
                [("port", "80"), ("streamtype", kind)]
                    .map(|(key, value)| (key.to_owned(), value.to_owned()))
                    .into_iter()
                    .collect::<StreamHeaders>()
            };
            assert_eq!(
                seen,
                [
                    Event::Opened {
                        stream: 1,
                        headers: headers("error")
                    },
                    Event::Opened {
                        stream: 3,
                        headers: headers("data")
                    },
                    Event::Data {
                        stream: 3,
                        bytes: b"hello".to_vec()
                    },
                    Event::Finished { stream: 3 },
                ]
            );
        }
    }

    #[test]
    fn many_small_frames_at_once_are_read_in_one_go() {
        let mut session = Session::new();
        let mut bytes = [0, 0, 0, 1, 0, 0, 0, 0].repeat(1 << 18);
        bytes.extend([0, 0, 0, 1, FIN, 0, 0, 0]);
        // Moving up the rest for each of them would take most of a minute.
        session.receive(&bytes);
        assert_eq!(events(&mut session), [Event::Finished { stream: 1 }]);
    }

    #[test]
    fn a_ping_comes_back_and_replies_are_understood() {
        let mut session = Session::new();
        let ping = [0x80, 3, 0, 6, 0, 0, 0, 4, 0, 0, 0, 1];
        session.receive(&ping);
        assert_eq!(session.poll_event(), Ok(None));
        assert_eq!(session.take_output(), ping);
        session.accept(1);
        session.accept(3);
        session.send(3, b"x");
        session.finish(3);
        session.refuse(5);
        let answered = session.take_output();
        assert_eq!(
            Peer::new().read(&answered),
            [
                Event::Data {
                    stream: 3,
                    bytes: b"x".to_vec()
                },
                Event::Finished { stream: 3 },
                Event::Reset { stream: 5 },
            ]
        );
    }

    #[test]
    fn hostile_frames_end_the_session() {
        let check = |bytes: &[u8], fault: Fault| {
            let mut session = Session::new();
            session.receive(bytes);
            assert_eq!(session.poll_event(), Err(fault), "{bytes:?}");
        };
        check(&[0x80, 2, 0, 6, 0, 0, 0, 0], Fault::Version(2));
        check(&[0x80, 3, 0, 6, 0, 0, 0, 0], Fault::TooShort);
        check(&[0x80, 3, 0, 1, 0, 0, 0, 2, 0, 0], Fault::TooShort);
        check(
            &[0, 0, 0, 1, 0, 0xff, 0xff, 0xff],
            Fault::TooLong {
                length: 0xff_ffff,
                limit: MAX_DATA,
            },
        );
        check(
            &[0x80, 3, 0, 1, 0, 1, 0, 0],
            Fault::TooLong {
                length: 1 << 16,
                limit: MAX_CONTROL,
            },
        );
        check(
            &[0x80, 3, 0, 1, 0, 0, 0, 12, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 2],
            Fault::Headers,
        );
        // A small block that unpacks to a large one.
        let mut peer = Peer::new();
        let bomb = "x".repeat(2 * MAX_CONTROL);
        check(&peer.open(1, &[("a", &bomb)]), Fault::Headers);
    }
}

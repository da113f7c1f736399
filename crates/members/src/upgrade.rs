//! Connections that stop speaking HTTP: what is agreed on, the switch, and SPDY sessions on them.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::time::Duration;

use apiserver::Body;
use bytes::Bytes;
use futures::{SinkExt, Stream, StreamExt};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, header};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use machinery::ApiError;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Message, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Utf8Bytes};

use crate::said::Said;
use crate::spdy::{Fault, Session};
use crate::streams::Streams;

const STREAM_PROTOCOL: HeaderName = HeaderName::from_static("x-stream-protocol-version");
const SPDY: &str = "SPDY/3.1";

/// How long the client may take to close a connection on which everything is said.
const LEAVING: Duration = Duration::from_secs(5);

/// What both ends speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Agreed {
    /// A WebSocket with this sub-protocol.
    WebSocket(&'static str),
    /// SPDY, with streams of this protocol.
    Spdy(&'static str),
}

/// An upgraded connection.
pub(crate) enum Pipe {
    Raw(TokioIo<Upgraded>),
    WebSocket(Box<WebSocketStream<TokioIo<Upgraded>>>),
}

/// Why a conversation ended early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Broken {
    #[error("the connection failed")]
    Io(#[from] io::Error),
    #[error("the WebSocket failed")]
    WebSocket(#[from] tungstenite::Error),
    #[error("the client speaks no SPDY")]
    Spdy(#[from] Fault),
}

/// Finds what both ends speak: the first of ours that the client offers.
///
/// # Errors
/// 400 if there is nothing.
pub(crate) fn agree(
    headers: &HeaderMap,
    web_socket: &[&'static str],
    spdy: &[&'static str],
) -> Result<Agreed, ApiError> {
    let texts = |name: HeaderName| {
        let values = headers.get_all(name).into_iter();
        let texts: Vec<&str> = values
            .filter_map(|value| value.to_str().ok())
            .flat_map(|text| text.split(','))
            .map(str::trim)
            .collect();
        texts
    };
    let wants_spdy = texts(header::UPGRADE)
        .iter()
        .any(|name| name.eq_ignore_ascii_case(SPDY));
    let (offered, known) = if wants_spdy {
        (texts(STREAM_PROTOCOL), spdy)
    } else {
        (texts(header::SEC_WEBSOCKET_PROTOCOL), web_socket)
    };
    let is_upgrade = wants_spdy || headers.contains_key(header::SEC_WEBSOCKET_KEY);
    if !is_upgrade {
        return Err(ApiError::bad_request(
            "this is answered on an upgraded connection only: a WebSocket, or SPDY/3.1",
        ));
    }
    let common = known.iter().find(|protocol| offered.contains(protocol));
    match common {
        Some(protocol) if wants_spdy => Ok(Agreed::Spdy(protocol)),
        Some(protocol) => Ok(Agreed::WebSocket(protocol)),
        None => Err(ApiError::bad_request(format!(
            "no common protocol: offered {offered:?}, known {}",
            known.join(", ")
        ))),
    }
}

/// Answers 101, and hands the connection over once it is free.
///
/// # Errors
/// 400 if the connection cannot be upgraded.
pub(crate) fn switch<F>(
    request: &mut Request<Body>,
    agreed: Agreed,
    talk: impl FnOnce(Pipe) -> F + Send + 'static,
) -> Result<Response<Body>, ApiError>
where
    F: Future<Output = Result<(), Broken>> + Send,
{
    let upgrade = request
        .extensions_mut()
        .remove::<OnUpgrade>()
        .ok_or_else(|| ApiError::bad_request("this connection cannot be upgraded"))?;
    let response = switching(request.headers(), agreed);
    tokio::spawn(async move {
        let Ok(upgraded) = upgrade.await else { return };
        let io = TokioIo::new(upgraded);
        let pipe = match agreed {
            Agreed::Spdy(_) => Pipe::Raw(io),
            Agreed::WebSocket(_) => Pipe::WebSocket(Box::new(web_socket(io).await)),
        };
        if let Err(error) = talk(pipe).await {
            tracing::debug!(error = %runtime::Chain(&error), "a simulated pod's conversation ended early");
        }
    });
    Ok(response)
}

/// Our end of a WebSocket, with bounds on what a client may send at once.
pub(crate) async fn web_socket<S: AsyncRead + AsyncWrite + Unpin>(io: S) -> WebSocketStream<S> {
    let limits = WebSocketConfig::default()
        .max_message_size(Some(1 << 20))
        .max_frame_size(Some(1 << 20));
    WebSocketStream::from_raw_socket(io, Role::Server, Some(limits)).await
}

fn switching(request: &HeaderMap, agreed: Agreed) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    match agreed {
        Agreed::Spdy(protocol) => {
            headers.insert(header::UPGRADE, HeaderValue::from_static(SPDY));
            headers.insert(STREAM_PROTOCOL, HeaderValue::from_static(protocol));
        }
        Agreed::WebSocket(protocol) => {
            headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
            headers.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol));
            let key = request.get(header::SEC_WEBSOCKET_KEY);
            let accept = derive_accept_key(key.map(HeaderValue::as_bytes).unwrap_or_default());
            let accept = HeaderValue::try_from(accept).expect("base64 is a header value");
            headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
        }
    }
    response
}

/// Carries a SPDY session until everything is said or the client leaves; `said` is what is told without being asked.
pub(crate) async fn serve(
    mut pipe: Pipe,
    mut streams: impl Streams,
    said: impl Stream<Item = Said> + Send,
) -> Result<(), Broken> {
    let mut session = Session::new();
    let mut said = pin!(said);
    while !streams.is_done() {
        tokio::select! {
            bytes = pipe.read() => {
                let Some(bytes) = bytes? else {
                    return Ok(());
                };
                session.receive(&bytes);
                while let Some(event) = session.poll_event()? {
                    streams.handle(event, &mut session);
                }
            }
            Some(said) = said.next() => streams.tell(said, &mut session),
        }
        let output = session.take_output();
        if !output.is_empty() {
            pipe.write(output).await?;
        }
    }
    pipe.leave().await
}

impl Pipe {
    /// The next bytes, `None` at the end.
    async fn read(&mut self) -> Result<Option<Bytes>, Broken> {
        match self {
            Self::Raw(io) => {
                let mut buffer = Vec::with_capacity(32 << 10);
                let read = io.read_buf(&mut buffer).await?;
                Ok((read > 0).then(|| Bytes::from(buffer)))
            }
            Self::WebSocket(socket) => loop {
                match socket.next().await.transpose()? {
                    Some(Message::Binary(bytes)) => return Ok(Some(bytes)),
                    None | Some(Message::Close(_)) => return Ok(None),
                    Some(Message::Text(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_)) => {}
                }
            },
        }
    }

    async fn write(&mut self, bytes: Vec<u8>) -> Result<(), Broken> {
        match self {
            Self::Raw(io) => Ok(io.write_all(&bytes).await?),
            Self::WebSocket(socket) => Ok(socket.send(Message::Binary(bytes.into())).await?),
        }
    }

    /// Ends this side, and waits a moment for the other to end its own: a connection that is dropped with something
    /// unread in it may take along what was sent last.
    async fn leave(&mut self) -> Result<(), Broken> {
        match self {
            Self::Raw(io) => {
                io.shutdown().await?;
                let mut rest = tokio::io::sink();
                let _late = tokio::time::timeout(LEAVING, tokio::io::copy(io, &mut rest)).await;
                Ok(())
            }
            Self::WebSocket(socket) => Ok(close(socket).await?),
        }
    }
}

/// Closes a WebSocket. kubectl reads until the close is answered: the connection must not end before.
pub(crate) async fn close<S: AsyncRead + AsyncWrite + Unpin>(
    socket: &mut WebSocketStream<S>,
) -> Result<(), tungstenite::Error> {
    let done = CloseFrame {
        code: CloseCode::Normal,
        reason: Utf8Bytes::default(),
    };
    socket.close(Some(done)).await?;
    let answered = async { while let Some(Ok(_)) = socket.next().await {} };
    let _late = tokio::time::timeout(LEAVING, answered).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_protocol_that_both_speak_is_agreed_on() {
        let check = |pairs: &[(&'static str, &'static str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.append(*name, HeaderValue::from_static(value));
            }
            agree(&headers, &["b", "a"], &["s"]).map_err(|error| error.code)
        };
        let key = ("sec-websocket-key", "x");
        assert_eq!(
            check(&[key, ("upgrade", "websocket"), ("sec-websocket-protocol", "a, b")]),
            Ok(Agreed::WebSocket("b"))
        );
        let streams = "x-stream-protocol-version";
        assert_eq!(
            check(&[("upgrade", "SPDY/3.1"), (streams, "q"), (streams, "s")]),
            Ok(Agreed::Spdy("s"))
        );
        assert_eq!(check(&[key, ("sec-websocket-protocol", "c")]), Err(400));
        assert_eq!(check(&[("upgrade", "SPDY/3.1"), (streams, "a")]), Err(400));
        assert_eq!(check(&[("sec-websocket-protocol", "a")]), Err(400));
    }
}

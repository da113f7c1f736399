//! Commands in simulated pods, and their forwarded ports.
//!
//! A command speaks `v4.channel.k8s.io` or `v5.channel.k8s.io` on a WebSocket (KEP-4006: each binary message starts
//! with a channel byte: 0 stdin, 1 stdout, 2 stderr, 3 the final `Status`, 255 (v5) closes a channel), or the former on
//! the streams of a SPDY session, as kubectl does before 1.31. A forwarded port is a SPDY session, on the connection
//! itself or inside a WebSocket (KEP-4006 again).

use apiserver::options::ForwardOptions;
use apiserver::{Body, RequestInfo};
use futures::{SinkExt, StreamExt};
use http::{Request, Response};
use machinery::ApiError;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::protocol::Message;

use crate::backend::{container, query};
use crate::commands;
use crate::streams::{Exec, Forward};
use crate::upgrade::{self, Pipe, WebSocket};
use crate::world::pod_ready;

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const STATUS: u8 = 3;
const CLOSE: u8 = 255;

const CHANNELS: [&str; 2] = ["v5.channel.k8s.io", "v4.channel.k8s.io"];
const CHANNEL_STREAMS: [&str; 1] = ["v4.channel.k8s.io"];
const TUNNELLED: [&str; 1] = ["SPDY/3.1+portforward.k8s.io"];
const FORWARDED: [&str; 1] = ["portforward.k8s.io"];

/// Answers a request for a command, or to attach to a container: that one copies what it is told.
pub(crate) fn answer(
    info: &RequestInfo,
    pod: Value,
    mut request: Request<Body>,
) -> Result<Response<Body>, ApiError> {
    runs(info, &pod)?;
    let query = query(&request);
    container(&pod, query.get("container").unwrap_or_default())?;
    let agreed = upgrade::agree(request.headers(), &CHANNELS, &CHANNEL_STREAMS)?;
    let command: Vec<String> = match info.subresource.as_str() {
        "exec" => query.all("command").map(ToOwned::to_owned).collect(),
        _ => vec!["cat".to_owned()],
    };
    upgrade::switch(&mut request, agreed, move |pipe| async move {
        match pipe {
            Pipe::WebSocket(socket) => Ok(converse(*socket, &pod, &command).await?),
            Pipe::Raw(_) => {
                let mut wanted = vec!["error"];
                let streams = ["stdin", "stdout", "stderr"].into_iter();
                // A terminal has one output.
                wanted.extend(
                    streams.filter(|name| query.is_on(name) && !(*name == "stderr" && query.is_on("tty"))),
                );
                upgrade::serve(pipe, Exec::new(pod, command, wanted)).await
            }
        }
    })
}

/// Answers a request to forward ports.
pub(crate) fn forward(
    info: &RequestInfo,
    pod: Value,
    mut request: Request<Body>,
) -> Result<Response<Body>, ApiError> {
    runs(info, &pod)?;
    ForwardOptions::of_query(&query(&request))?;
    let agreed = upgrade::agree(request.headers(), &TUNNELLED, &FORWARDED)?;
    upgrade::switch(&mut request, agreed, move |pipe| {
        upgrade::serve(pipe, Forward::new(pod))
    })
}

fn runs(info: &RequestInfo, pod: &Value) -> Result<(), ApiError> {
    if pod_ready(pod) {
        return Ok(());
    }
    Err(ApiError::bad_request(format!(
        "container of pod \"{}\" is not running",
        info.name
    )))
}

async fn converse(mut socket: WebSocket, pod: &Value, command: &[String]) -> Result<(), Error> {
    let code = if commands::reads_input(command) {
        echo_input(&mut socket).await?;
        0
    } else {
        let output = commands::run(pod, command);
        for (channel, bytes) in [(STDOUT, &output.stdout), (STDERR, &output.stderr)] {
            if !bytes.is_empty() {
                socket.send(frame(channel, bytes.as_bytes())).await?;
            }
        }
        output.code
    };
    socket
        .send(frame(STATUS, outcome(code).to_string().as_bytes()))
        .await?;
    upgrade::close(&mut socket).await
}

async fn echo_input(socket: &mut WebSocket) -> Result<(), Error> {
    while let Some(message) = socket.next().await {
        match message? {
            Message::Binary(bytes) if bytes.first() == Some(&STDIN) => {
                socket.send(frame(STDOUT, &bytes[1..])).await?;
            }
            Message::Binary(bytes) if bytes.first() == Some(&CLOSE) => break,
            Message::Close(_) => break,
            Message::Binary(_)
            | Message::Text(_)
            | Message::Ping(_)
            | Message::Pong(_)
            | Message::Frame(_) => {}
        }
    }
    Ok(())
}

fn frame(channel: u8, bytes: &[u8]) -> Message {
    let mut data = Vec::with_capacity(bytes.len() + 1);
    data.push(channel);
    data.extend_from_slice(bytes);
    Message::Binary(data.into())
}

/// How a command ended.
pub(crate) fn outcome(code: i32) -> Value {
    if code == 0 {
        return json!({"metadata": {}, "status": "Success"});
    }
    json!({
        "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
        "message": format!("command terminated with non-zero exit code: exit status {code}"),
        "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
    })
}

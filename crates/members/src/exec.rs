//! Commands in simulated pods, who attaches to them, and their forwarded ports.
//!
//! A command speaks `v4.channel.k8s.io` or `v5.channel.k8s.io` on a WebSocket (KEP-4006: each binary message starts
//! with a channel byte: 0 stdin, 1 stdout, 2 stderr, 3 the final `Status`, 255 (v5) closes a channel), or the former on
//! the streams of a SPDY session, as kubectl does before 1.31. A forwarded port is a SPDY session, on the connection
//! itself or inside a WebSocket (KEP-4006 again).

use apiserver::options::ForwardOptions;
use apiserver::{Body, RequestInfo, Subject};
use futures::stream::{self, BoxStream};
use futures::{SinkExt, StreamExt};
use http::{Request, Response};
use machinery::ApiError;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::protocol::Message;

use crate::backend::{container, query};
use crate::commands;
use crate::said::{self, Said};
use crate::streams::{Exec, Forward, Task, typed};
use crate::upgrade::{self, Pipe};
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

/// Answers a request for a command, or to attach to a container.
pub(crate) fn answer(
    info: &RequestInfo,
    subject: Subject,
    mut request: Request<Body>,
) -> Result<Response<Body>, ApiError> {
    runs(info, &subject.object)?;
    let query = query(&request);
    let container = container(&subject.object, query.get("container").unwrap_or_default())?.clone();
    let agreed = upgrade::agree(request.headers(), &CHANNELS, &CHANNEL_STREAMS)?;
    let terminal = query.is_on("tty");
    // A terminal has one output.
    let wanted: Vec<&'static str> = ["stdin", "stdout", "stderr"]
        .into_iter()
        .filter(|name| query.is_on(name) && !(*name == "stderr" && terminal))
        .collect();
    let (task, said) = if info.subresource == "exec" {
        let command: Vec<String> = query.all("command").map(ToOwned::to_owned).collect();
        let task = task(&subject.object, &command);
        (task, stream::pending().boxed())
    } else {
        let printed = said::printed(&subject.object, &container);
        let copies = printed.is_none() && container["stdin"] == true;
        let speaks = printed.is_none() && !copies;
        let task = Task::Runs {
            notice: said::notice(&subject.object, &container) + "\n",
            printed: printed.unwrap_or_default(),
            copies,
        };
        (task, said::later(subject, &container, speaks))
    };
    let task = if terminal { task.on_terminal() } else { task };
    upgrade::switch(&mut request, agreed, move |pipe| async move {
        match pipe {
            Pipe::WebSocket(socket) => Ok(converse(*socket, &task, terminal, &wanted, said).await?),
            Pipe::Raw(_) => {
                let wanted = [&["error"], &wanted[..]].concat();
                upgrade::serve(pipe, Exec::new(task, terminal, wanted), said).await
            }
        }
    })
}

/// What a command comes to.
pub(crate) fn task(pod: &Value, command: &[String]) -> Task {
    if commands::reads_input(command) {
        Task::Runs {
            notice: String::new(),
            printed: String::new(),
            copies: true,
        }
    } else {
        Task::Ran(commands::run(pod, command))
    }
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
        upgrade::serve(pipe, Forward::new(pod), stream::pending())
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

/// Says what a command or a container says, and hears what it reads, until either ends.
pub(crate) async fn converse<S: AsyncRead + AsyncWrite + Unpin>(
    mut socket: WebSocketStream<S>,
    task: &Task,
    terminal: bool,
    wanted: &[&str],
    said: BoxStream<'static, Said>,
) -> Result<(), Error> {
    let errors = if wanted.contains(&"stderr") {
        STDERR
    } else {
        STDOUT
    };
    let (parts, code) = match task {
        Task::Ran(output) => ([(STDOUT, &output.stdout), (STDERR, &output.stderr)], output.code),
        Task::Runs { notice, printed, .. } => ([(errors, notice), (STDOUT, printed)], 0),
    };
    for (channel, text) in parts {
        if !text.is_empty() {
            socket.send(frame(channel, text.as_bytes())).await?;
        }
    }
    if let Task::Runs { copies, .. } = task {
        go_on(&mut socket, *copies, terminal, said).await?;
    }
    socket
        .send(frame(STATUS, outcome(code).to_string().as_bytes()))
        .await?;
    upgrade::close(&mut socket).await
}

/// Passes on what is typed and said, until either ends or the client leaves.
async fn go_on<S: AsyncRead + AsyncWrite + Unpin>(
    socket: &mut WebSocketStream<S>,
    copies: bool,
    terminal: bool,
    mut said: BoxStream<'static, Said>,
) -> Result<(), Error> {
    loop {
        let message = tokio::select! {
            said = said.next() => match said {
                Some(Said::Line(line)) => {
                    socket.send(frame(STDOUT, line.as_bytes())).await?;
                    continue;
                }
                Some(Said::Over) | None => return Ok(()),
            },
            message = socket.next() => message.transpose()?,
        };
        match message {
            Some(Message::Binary(bytes)) if copies && bytes.first() == Some(&STDIN) => {
                let (line, ends) = typed(&bytes[1..], terminal);
                socket.send(frame(STDOUT, &line)).await?;
                if ends {
                    return Ok(());
                }
            }
            Some(Message::Binary(bytes)) if copies && bytes.first() == Some(&CLOSE) => return Ok(()),
            None | Some(Message::Close(_)) => return Ok(()),
            Some(
                Message::Binary(_)
                | Message::Text(_)
                | Message::Ping(_)
                | Message::Pong(_)
                | Message::Frame(_),
            ) => {}
        }
    }
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

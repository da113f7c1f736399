//! What answers for simulated pods: `exec` and `attach` over WebSocket, and `log`.
//!
//! The remote command protocol is `v4.channel.k8s.io` / `v5.channel.k8s.io` (KEP-4006): each binary message starts
//! with a channel byte: 0 stdin, 1 stdout, 2 stderr, 3 the final `Status`, 255 (v5) closes a channel.
//! SPDY clients (kubectl before 1.31) get a clear refusal.

use std::time::Duration;

use apiserver::query::Query;
use apiserver::{Body, PodBackend, RequestInfo, UserInfo};
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{SinkExt, StreamExt};
use http::{HeaderValue, Request, Response, StatusCode, header};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use machinery::{ApiError, Reason};
use serde_json::{Value, json};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Utf8Bytes;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Message, Role, WebSocketConfig};

use crate::commands;
use crate::world::{name, namespace, pod_ready, text};

const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const STATUS: u8 = 3;
const CLOSE: u8 = 255;
const PROTOCOLS: [&str; 2] = ["v5.channel.k8s.io", "v4.channel.k8s.io"];

/// Answers for pods that nothing runs.
#[derive(Debug, Clone, Copy, Default)]
pub struct SimulatedPods;

impl PodBackend for SimulatedPods {
    fn connect(
        &self,
        info: RequestInfo,
        _user: UserInfo,
        object: Value,
        request: Request<Body>,
    ) -> BoxFuture<'_, Response<Body>> {
        let answer = match info.subresource.as_str() {
            "log" => log(&object, &Query::parse(request.uri().query().unwrap_or_default())),
            "exec" | "attach" => remote_command(&info, object, request),
            other => Err(ApiError::new(
                Reason::MethodNotAllowed,
                format!(
                    "{} \"{}\" is simulated by tombolo and has no {other}",
                    info.resource, info.name
                ),
            )),
        };
        Box::pin(std::future::ready(answer.unwrap_or_else(|error| refuse(&error))))
    }
}

fn refuse(error: &ApiError) -> Response<Body> {
    let mut response = Response::new(Body::from(Bytes::from(error.to_value().to_string())));
    *response.status_mut() = StatusCode::from_u16(error.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The container that a request means: the one it names, or the only one.
fn container<'a>(pod: &'a Value, query: &Query) -> Result<&'a Value, ApiError> {
    let of = |field: &str| {
        pod["spec"][field]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default()
            .iter()
    };
    match query.get("container").filter(|wanted| !wanted.is_empty()) {
        Some(wanted) => ["containers", "initContainers", "ephemeralContainers"]
            .into_iter()
            .flat_map(of)
            .find(|container| container["name"] == wanted)
            .ok_or_else(|| {
                ApiError::bad_request(format!("container {wanted} is not valid for pod {}", name(pod)))
            }),
        None => match pod["spec"]["containers"].as_array().map(Vec::as_slice) {
            Some([only]) => Ok(only),
            Some(several) => {
                let names: Vec<&str> = several.iter().map(|container| text(container, "/name")).collect();
                Err(ApiError::bad_request(format!(
                    "a container name must be specified for pod {}, choose one of: [{}]",
                    name(pod),
                    names.join(" ")
                )))
            }
            None => Err(ApiError::bad_request(format!(
                "pod {} has no containers",
                name(pod)
            ))),
        },
    }
}

/// When a container of a pod began, if it did.
fn started<'a>(pod: &'a Value, container: &str) -> Option<&'a str> {
    let state = pod["status"]["containerStatuses"]
        .as_array()?
        .iter()
        .find(|status| status["name"] == container)?
        .get("state")?;
    ["running", "terminated"]
        .into_iter()
        .find_map(|phase| state[phase]["startedAt"].as_str())
}

fn log(pod: &Value, query: &Query) -> Result<Response<Body>, ApiError> {
    let container = text(container(pod, query)?, "/name").to_owned();
    let pod_name = name(pod);
    if query.is_on("previous") {
        return Err(ApiError::bad_request(format!(
            "previous terminated container \"{container}\" in pod \"{pod_name}\" not found"
        )));
    }
    let Some(started) = started(pod, &container) else {
        return Err(ApiError::bad_request(format!(
            "container \"{container}\" in pod \"{pod_name}\" is waiting to start"
        )));
    };
    let number = |field: &str| query.get(field).and_then(|number| number.parse::<usize>().ok());
    let stamp = if query.is_on("timestamps") {
        format!("{started} ")
    } else {
        String::new()
    };
    let mut first = format!(
        "{stamp}{}/{pod_name} {container}: simulated by tombolo, nothing runs here; started {started}\n",
        namespace(pod),
    )
    .into_bytes();
    if number("tailLines") == Some(0) {
        first.clear();
    }
    first.truncate(number("limitBytes").unwrap_or(usize::MAX));
    let body = if query.is_on("follow") {
        let line = Bytes::from(format!("{container}: still simulated\n"));
        let later = futures::stream::unfold((), move |()| {
            let line = line.clone();
            async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                Some((Ok::<_, apiserver::BoxError>(line), ()))
            }
        });
        Body::from_stream(futures::stream::iter([Ok(Bytes::from(first))]).chain(later))
    } else {
        Body::from(Bytes::from(first))
    };
    let mut response = Response::new(body);
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    Ok(response)
}

fn remote_command(
    info: &RequestInfo,
    pod: Value,
    mut request: Request<Body>,
) -> Result<Response<Body>, ApiError> {
    if !pod_ready(&pod) {
        return Err(ApiError::bad_request(format!(
            "container of pod \"{}\" is not running",
            info.name
        )));
    }
    let query = Query::parse(request.uri().query().unwrap_or_default());
    container(&pod, &query)?;
    let key = request.headers().get(header::SEC_WEBSOCKET_KEY).cloned();
    let upgrade = request.extensions_mut().remove::<OnUpgrade>();
    let (Some(key), Some(upgrade)) = (key, upgrade) else {
        return Err(ApiError::bad_request(
            "simulated pods answer exec and attach over WebSocket only: use kubectl 1.31 or newer, or set \
             KUBECTL_REMOTE_COMMAND_WEBSOCKETS=true",
        ));
    };
    let offered = request.headers().get(header::SEC_WEBSOCKET_PROTOCOL);
    let offered = offered.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let protocol = PROTOCOLS
        .into_iter()
        .find(|protocol| offered.split(',').any(|candidate| candidate.trim() == *protocol))
        .ok_or_else(|| {
            let message = format!(
                "no common protocol: offered {offered:?}, known {}",
                PROTOCOLS.join(", ")
            );
            ApiError::bad_request(message)
        })?;
    let command: Vec<String> = match info.subresource.as_str() {
        "exec" => query.all("command").map(ToOwned::to_owned).collect(),
        _ => vec!["cat".to_owned()],
    };
    tokio::spawn(async move {
        let Ok(upgraded) = upgrade.await else { return };
        let limits = WebSocketConfig::default()
            .max_message_size(Some(1 << 20))
            .max_frame_size(Some(1 << 20));
        let socket =
            WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, Some(limits)).await;
        if let Err(error) = converse(socket, &pod, &command).await {
            tracing::debug!(%error, "simulated exec ended early");
        }
    });
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol));
    let accept = HeaderValue::try_from(derive_accept_key(key.as_bytes()));
    headers.insert(
        header::SEC_WEBSOCKET_ACCEPT,
        accept.expect("base64 is a header value"),
    );
    Ok(response)
}

type Socket = WebSocketStream<TokioIo<hyper::upgrade::Upgraded>>;

async fn converse(
    mut socket: Socket,
    pod: &Value,
    command: &[String],
) -> Result<(), tokio_tungstenite::tungstenite::Error> {
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
    let done = CloseFrame {
        code: CloseCode::Normal,
        reason: Utf8Bytes::default(),
    };
    socket.close(Some(done)).await?;
    // kubectl reads until the close is answered: the connection must not end before.
    while let Some(Ok(_)) = socket.next().await {}
    Ok(())
}

async fn echo_input(socket: &mut Socket) -> Result<(), tokio_tungstenite::tungstenite::Error> {
    while let Some(message) = socket.next().await {
        match message? {
            Message::Binary(bytes) if bytes.first() == Some(&0) => {
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

fn outcome(code: i32) -> Value {
    if code == 0 {
        return json!({"metadata": {}, "status": "Success"});
    }
    json!({
        "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
        "message": format!("command terminated with non-zero exit code: exit status {code}"),
        "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn logs_are_of_a_container_that_runs() {
        let pod = json!({
            "metadata": {"name": "p", "namespace": "n"},
            "spec": {"containers": [{"name": "a"}, {"name": "b"}]},
            "status": {"containerStatuses": [{"name": "a", "state": {"running": {"startedAt": "T"}}}]},
        });
        let mut said = Vec::new();
        for query in [
            "",
            "container=a",
            "container=a&timestamps=1&limitBytes=7",
            "container=a&tailLines=0",
            "container=a&previous=true",
            "container=b",
            "container=c",
        ] {
            said.push(match log(&pod, &Query::parse(query)) {
                Ok(answer) => {
                    let body = http_body_util::BodyExt::collect(answer.into_body()).await;
                    String::from_utf8_lossy(&body.unwrap().to_bytes()).into_owned()
                }
                Err(error) => format!("{}: {error}", error.code),
            });
        }
        assert_eq!(
            said,
            [
                "400: a container name must be specified for pod p, choose one of: [a b]",
                "n/p a: simulated by tombolo, nothing runs here; started T\n",
                "T n/p a",
                "",
                "400: previous terminated container \"a\" in pod \"p\" not found",
                "400: container \"b\" in pod \"p\" is waiting to start",
                "400: container c is not valid for pod p",
            ]
        );
    }
}

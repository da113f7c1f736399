//! A scripted server for tests: answers in the order they were put in, and requests as they came.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::StreamExt;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};

use crate::client::Client;
use crate::error::BoxError;

type Answer = Response<UnsyncBoxBody<Bytes, BoxError>>;

/// The scripted server; clones share it. A request without an answer waits for one.
#[derive(Clone, Default)]
pub(crate) struct Fake {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    answers: Mutex<VecDeque<Answer>>,
    requests: Mutex<Vec<(String, Value)>>,
    more: Notify,
}

impl Fake {
    /// Puts the answer to a further request in.
    pub(crate) fn answer(&self, answer: Answer) {
        self.shared.answers.lock().unwrap().push_back(answer);
        self.shared.more.notify_waiters();
    }

    /// Puts a watch stream in.
    pub(crate) fn stream(&self) -> Stream {
        let (sender, receiver) = mpsc::unbounded_channel();
        let frames = futures::stream::unfold(receiver, |mut receiver| async {
            let item: Option<Result<Bytes, BoxError>> = receiver.recv().await;
            item.map(|item| (item.map(Frame::data), receiver))
        });
        self.answer(Response::new(UnsyncBoxBody::new(StreamBody::new(frames.boxed()))));
        Stream { sender }
    }

    /// Method and path of each request so far.
    pub(crate) fn requests(&self) -> Vec<String> {
        let requests = self.shared.requests.lock().unwrap();
        requests.iter().map(|(line, _)| line.clone()).collect()
    }

    /// The body of the request at an index.
    pub(crate) fn body(&self, index: usize) -> Value {
        self.shared.requests.lock().unwrap()[index].1.clone()
    }

    pub(crate) fn client(&self) -> Client {
        let shared = self.shared.clone();
        Client::from_service(tower::service_fn(move |request: Request<Full<Bytes>>| {
            let shared = shared.clone();
            async move {
                let line = format!("{} {}", request.method(), request.uri());
                let body = request.into_body().collect().await.unwrap().to_bytes();
                let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
                shared.requests.lock().unwrap().push((line, body));
                loop {
                    let more = shared.more.notified();
                    if let Some(answer) = shared.answers.lock().unwrap().pop_front() {
                        return Ok::<_, Infallible>(answer);
                    }
                    more.await;
                }
            }
        }))
    }
}

/// The server's end of a watch.
pub(crate) struct Stream {
    sender: mpsc::UnboundedSender<Result<Bytes, BoxError>>,
}

impl Stream {
    pub(crate) fn event(&self, kind: &str, object: &Value) {
        let line = format!("{}\n", json!({"type": kind, "object": object}));
        self.sender.send(Ok(Bytes::from(line))).unwrap();
    }

    pub(crate) fn fail(&self) {
        self.sender.send(Err("the line is cut".into())).unwrap();
    }

    pub(crate) async fn closed(&self) {
        self.sender.closed().await;
    }
}

pub(crate) fn json_answer(value: &Value) -> Answer {
    Response::new(
        Full::new(Bytes::from(value.to_string()))
            .map_err(Into::into)
            .boxed_unsync(),
    )
}

pub(crate) fn status_answer(code: u16, reason: &str) -> Answer {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": reason});
    let mut answer = json_answer(&status);
    *answer.status_mut() = http::StatusCode::from_u16(code).unwrap();
    answer
}

pub(crate) fn object(namespace: &str, name: &str, version: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": namespace, "name": name, "resourceVersion": version}})
}

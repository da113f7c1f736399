//! A server over a store on a simulated disk, and a client without a socket.

use std::sync::Arc;

use apiserver::{ApiServer, Body, Caller, Config, UserInfo};
use bytes::Bytes;
use futures::StreamExt;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, BodyStream};
use serde_json::Value;

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) bytes: Bytes,
}

impl Answer {
    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&self.bytes)))
    }

    /// The body, if the status is the wanted one.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Value {
        assert_eq!(
            self.status.as_u16(),
            status,
            "{}",
            String::from_utf8_lossy(&self.bytes)
        );
        self.json()
    }
}

/// A server and its client.
pub(crate) struct Harness {
    pub(crate) server: Arc<ApiServer>,
}

impl Harness {
    /// A server over an empty store.
    pub(crate) async fn new() -> Self {
        let env = clock::Env::system();
        let disk = clock::disk::SimDisk::new(1);
        let store = store::Store::open(
            Arc::new(disk),
            store::Options::new(env.clone()),
            store::Mode::Inline,
        )
        .expect("an empty disk opens");
        let server = ApiServer::start(Config::new(store, env, Arc::new(apiserver::authz::AllowAll)))
            .await
            .expect("an empty store answers");
        let harness = Self { server };
        for name in ["default", "other"] {
            harness
                .post("/api/v1/namespaces", namespace(name))
                .await
                .expect(201);
        }
        harness
    }

    /// One request.
    pub(crate) async fn send(
        &self,
        method: &str,
        uri: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(body)).unwrap();
        let response = self
            .server
            .handle(request, Caller::User(UserInfo::loopback()))
            .await;
        let (parts, body) = response.into_parts();
        Answer {
            status: parts.status,
            headers: parts.headers,
            bytes: body.collect().await.unwrap().to_bytes(),
        }
    }

    pub(crate) async fn get(&self, uri: &str) -> Answer {
        self.send("GET", uri, &[], Vec::new()).await
    }

    pub(crate) async fn get_as(&self, uri: &str, accept: &str) -> Answer {
        self.send("GET", uri, &[("accept", accept)], Vec::new()).await
    }

    pub(crate) async fn post(&self, uri: &str, body: Value) -> Answer {
        self.send("POST", uri, &[], body.to_string().into_bytes()).await
    }

    pub(crate) async fn put(&self, uri: &str, body: Value) -> Answer {
        self.send("PUT", uri, &[], body.to_string().into_bytes()).await
    }

    pub(crate) async fn delete(&self, uri: &str) -> Answer {
        self.send("DELETE", uri, &[], Vec::new()).await
    }

    /// A patch; `kind` is `merge`, `json`, `strategic`…
    pub(crate) async fn patch(&self, uri: &str, kind: &str, body: Value) -> Answer {
        let kind = match kind {
            "merge" => "application/merge-patch+json",
            "json" => "application/json-patch+json",
            "strategic" => "application/strategic-merge-patch+json",
            "apply" => "application/apply-patch+yaml",
            other => other,
        };
        self.send(
            "PATCH",
            uri,
            &[("content-type", kind)],
            body.to_string().into_bytes(),
        )
        .await
    }

    /// A watch's events.
    pub(crate) async fn watch(&self, uri: &str, accept: &str) -> Events {
        let request = Request::builder()
            .uri(uri)
            .header("accept", accept)
            .body(Body::empty())
            .unwrap();
        let response = self
            .server
            .handle(request, Caller::User(UserInfo::loopback()))
            .await;
        assert_eq!(response.status(), 200);
        Events {
            stream: BodyStream::new(response.into_body()),
            buffer: Vec::new(),
        }
    }
}

/// A namespace to create.
pub(crate) fn namespace(name: &str) -> Value {
    serde_json::json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name}})
}

/// The events of a watch in JSON.
pub(crate) struct Events {
    stream: BodyStream<Body>,
    buffer: Vec<u8>,
}

impl Events {
    /// The next event, `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let frame = self.stream.next().await?.unwrap();
            self.buffer.extend_from_slice(frame.data_ref()?);
        }
    }

    /// The next event as `TYPE name@revision`.
    pub(crate) async fn line(&mut self) -> String {
        match self.next().await {
            None => "END".to_owned(),
            Some(event) => format!(
                "{} {}",
                event["type"].as_str().unwrap(),
                event["object"]["metadata"]["name"].as_str().unwrap_or("-"),
            ),
        }
    }
}

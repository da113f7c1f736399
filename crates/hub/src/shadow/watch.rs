//! Watching templates: a watch of Manifests, each event rewritten.

use std::collections::VecDeque;
use std::time::Duration;

use apiserver::kinds::{self, IncludeObject, Kind};
use apiserver::negotiate::{Accepted, Encoding, Form};
use apiserver::options::ListOptions;
use apiserver::{Body, BoxError};
use bytes::Bytes;
use futures::stream;
use http::Response;
use http::header::{CONTENT_TYPE, HeaderValue};
use kubeio::{WatchEvent, WatchOptions, WatchStream};
use machinery::{ApiError, ApiResource};
use runtime::CancellationToken;
use serde_json::{Value, json};

use super::output::partial;
use super::template::to_object;
use super::{Call, Shadow, read};
use crate::respond;

/// How long a watch lasts if the client does not say.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// How an event is written.
struct Writer {
    resource: ApiResource,
    kind: Kind,
    accepted: Accepted,
    include: IncludeObject,
    bookmarks: bool,
    env: clock::Env,
}

struct Watching {
    writer: Writer,
    waiting: VecDeque<Bytes>,
    events: Option<WatchStream>,
    shutdown: CancellationToken,
}

impl Shadow {
    pub(super) async fn watch(
        &self,
        call: &Call<'_>,
        asked: &ListOptions,
    ) -> Result<Response<Body>, ApiError> {
        let writer = Writer {
            resource: call.resource().clone(),
            kind: call.kind.clone(),
            accepted: call.accepted,
            include: call.include()?,
            bookmarks: asked.bookmarks,
            env: self.env.clone(),
        };
        let mut waiting = VecDeque::new();
        let mut from = asked.revision.clone();
        if asked.initial == Some(true) {
            // The list and the watch after it make one stream: the client asked to start with all that is there.
            let list = self.read_all(call, asked).await?;
            waiting.extend(
                read::items(&list)
                    .iter()
                    .map(|manifest| writer.object("ADDED", manifest)),
            );
            from = list["metadata"]["resourceVersion"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            if asked.bookmarks {
                waiting.push_back(writer.bookmark(&from, true));
            }
        }
        let options = WatchOptions {
            label_selector: read::selector(call, asked)?,
            resource_version: from,
            timeout: timeout(asked),
            ..WatchOptions::default()
        };
        let events = self
            .parent
            .watch_manifests(&options)
            .await
            .map_err(|error| call.translate(error, ""))?;
        let watching = Watching {
            writer,
            waiting,
            events: Some(events),
            shutdown: self.shutdown.clone(),
        };
        let frames = stream::unfold(watching, |mut watching| async move {
            let frame = watching.next().await?;
            Some((Ok::<_, BoxError>(frame), watching))
        });
        Ok(streamed(call.accepted, Body::from_stream(frames)))
    }

    /// A watch that sees nothing.
    pub(super) fn silent_watch(&self, call: &Call<'_>, asked: &ListOptions) -> Response<Body> {
        let (shutdown, timeout) = (self.shutdown.clone(), timeout(asked));
        let nothing = stream::once(async move {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => {}
                () = tokio::time::sleep(timeout) => {}
            }
            Ok::<_, BoxError>(Bytes::new())
        });
        streamed(call.accepted, Body::from_stream(nothing))
    }
}

fn timeout(asked: &ListOptions) -> Duration {
    const LONGEST: u64 = 24 * 3_600;
    match asked.timeout {
        None | Some(0) => DEFAULT_TIMEOUT,
        Some(seconds) => Duration::from_secs(u64::try_from(seconds).unwrap_or(0).clamp(1, LONGEST)),
    }
}

fn streamed(accepted: Accepted, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let kind = HeaderValue::from_static(accepted.encoding.stream_content_type());
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

impl Watching {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frame) = self.waiting.pop_front() {
                return Some(frame);
            }
            let events = self.events.as_mut()?;
            let event = tokio::select! {
                biased;
                () = self.shutdown.cancelled() => return None,
                event = events.next() => event?,
            };
            match event {
                Ok(WatchEvent::Added(manifest)) => return Some(self.writer.object("ADDED", &manifest)),
                Ok(WatchEvent::Modified(manifest)) => return Some(self.writer.object("MODIFIED", &manifest)),
                Ok(WatchEvent::Deleted(manifest)) => return Some(self.writer.object("DELETED", &manifest)),
                Ok(WatchEvent::Bookmark(version)) if self.writer.bookmarks => {
                    return Some(self.writer.bookmark(&version, false));
                }
                Ok(WatchEvent::Bookmark(_)) => {}
                Err(error) => {
                    self.events = None;
                    let status = respond::from_parent(error).to_value();
                    return Some(self.writer.frame("ERROR", &status));
                }
            }
        }
    }
}

impl Writer {
    fn object(&self, word: &str, manifest: &Value) -> Bytes {
        let object = to_object(manifest);
        let shown = match self.accepted.form {
            Form::Object => object,
            Form::Metadata => partial(&object),
            Form::Table => {
                let metadata = json!({"resourceVersion": object["metadata"]["resourceVersion"]});
                self.kind.table([object], metadata, self.include, self.env.now())
            }
        };
        self.frame(word, &shown)
    }

    fn bookmark(&self, version: &str, initial_end: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": version, "creationTimestamp": null});
        if initial_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let shown = match self.accepted.form {
            Form::Object => json!({
                "apiVersion": self.resource.api_version(), "kind": self.resource.kind, "metadata": metadata,
            }),
            Form::Metadata => partial(&json!({"metadata": metadata})),
            Form::Table => kinds::bookmark_table(&metadata),
        };
        self.frame("BOOKMARK", &shown)
    }

    fn frame(&self, word: &str, shown: &Value) -> Bytes {
        let shown = &*self.accepted.in_version(shown);
        if self.accepted.encoding == Encoding::Protobuf {
            let frame = codec::protobuf::encode_watch_event(word, shown).or_else(|error| {
                let text = format!("the object cannot be encoded: {error}");
                codec::protobuf::encode_watch_event("ERROR", &ApiError::internal(text).to_value())
            });
            return frame.unwrap_or_default();
        }
        let mut line = json!({"type": word, "object": shown}).to_string();
        line.push('\n');
        Bytes::from(line)
    }
}

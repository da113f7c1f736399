//! Watching templates: a watch of Manifests, each event rewritten.

use std::collections::VecDeque;
use std::time::Duration;

use apiserver::{Body, BoxError};
use bytes::Bytes;
use futures::stream;
use http::Response;
use http::header::{CONTENT_TYPE, HeaderValue};
use jiff::Timestamp;
use kubeio::{WatchEvent, WatchOptions, WatchStream};
use machinery::table::{self, IncludeObject};
use machinery::{ApiError, ApiResource};
use runtime::CancellationToken;
use serde_json::{Value, json};

use super::output::{self, Form};
use super::template::to_object;
use super::{Call, Shadow, read};
use crate::respond;

/// How long a watch lasts if the client does not say.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// How an event is written.
struct Writer {
    resource: ApiResource,
    form: Form,
    include: IncludeObject,
    bookmarks: bool,
    env: clock::Env,
    /// Column headings were sent.
    headed: bool,
}

struct Watching {
    writer: Writer,
    waiting: VecDeque<Bytes>,
    events: Option<WatchStream>,
    shutdown: CancellationToken,
}

impl Shadow {
    pub(super) async fn watch(&self, call: &Call<'_>) -> Result<Response<Body>, ApiError> {
        let mut writer = Writer {
            resource: call.resource().clone(),
            form: call.form,
            include: output::include(&call.query)?,
            bookmarks: call.query.is_on("allowWatchBookmarks"),
            env: self.env.clone(),
            headed: false,
        };
        let mut waiting = VecDeque::new();
        let mut from = call.query.get("resourceVersion").unwrap_or_default().to_owned();
        if call.query.is_on("sendInitialEvents") {
            // The list and the watch after it make one stream: the client asked to start with all that is there.
            let list = self.read_all(call).await?;
            waiting.extend(
                read::items(&list)
                    .iter()
                    .map(|manifest| writer.object("ADDED", manifest)),
            );
            from = list["metadata"]["resourceVersion"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            waiting.push_back(writer.bookmark(&from, true));
        }
        let options = WatchOptions {
            label_selector: read::selector(call)?,
            resource_version: from,
            timeout: timeout(call),
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
        Ok(streamed(Body::from_stream(stream::unfold(
            watching,
            |mut watching| async move {
                let line = watching.next().await?;
                Some((Ok::<_, BoxError>(line), watching))
            },
        ))))
    }

    /// A watch that sees nothing.
    pub(super) fn silent_watch(&self, call: &Call<'_>) -> Response<Body> {
        let (shutdown, timeout) = (self.shutdown.clone(), timeout(call));
        streamed(Body::from_stream(stream::once(async move {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => {}
                () = tokio::time::sleep(timeout) => {}
            }
            Ok::<_, BoxError>(Bytes::new())
        })))
    }
}

fn timeout(call: &Call<'_>) -> Duration {
    match call
        .query
        .get("timeoutSeconds")
        .and_then(|text| text.parse().ok())
    {
        None | Some(0) => DEFAULT_TIMEOUT,
        Some(seconds) => Duration::from_secs(seconds).min(Duration::from_secs(24 * 3_600)),
    }
}

fn streamed(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let kind = HeaderValue::from_static("application/json;stream=watch");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

impl Watching {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(line) = self.waiting.pop_front() {
                return Some(line);
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
                    return Some(line("ERROR", &respond::from_parent(error).to_value()));
                }
            }
        }
    }
}

impl Writer {
    fn object(&mut self, kind: &str, manifest: &Value) -> Bytes {
        let object = to_object(manifest);
        line(kind, &self.shown(&object))
    }

    fn shown(&mut self, object: &Value) -> Value {
        let now: Timestamp = self.env.now();
        match self.form {
            // Watches are JSON, whatever else the client would take.
            Form::Object | Form::Protobuf => object.clone(),
            Form::Metadata => table::partial_metadata(object),
            Form::Table => {
                let first = !std::mem::replace(&mut self.headed, true);
                let metadata = json!({"resourceVersion": object["metadata"]["resourceVersion"]});
                table::table(&output::columns(), [object], metadata, first, self.include, now)
            }
        }
    }

    fn bookmark(&mut self, version: &str, initial_end: bool) -> Bytes {
        let mut object = json!({
            "apiVersion": self.resource.api_version(), "kind": self.resource.kind,
            "metadata": {"resourceVersion": version, "creationTimestamp": null},
        });
        if initial_end {
            object["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let shown = self.shown(&object);
        line("BOOKMARK", &shown)
    }
}

fn line(kind: &str, object: &Value) -> Bytes {
    let mut text = json!({"type": kind, "object": object}).to_string();
    text.push('\n');
    Bytes::from(text)
}

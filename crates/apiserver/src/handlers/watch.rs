//! Watches: the source's events, selected, framed and bookmarked.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::stream::{self, StreamExt};
use http::{HeaderValue, Response, StatusCode, header};
use machinery::ApiError;
use prometheus_client::metrics::counter::Counter;
use serde_json::{Value, json};
use source::{Error, Event, EventKind, ListRequest, Object, Revision, Watch, WatchRequest};
use tokio::time::{Instant, Sleep};

use super::{Call, list, present};
use crate::body::{Body, BoxError};
use crate::metrics::InFlight;
use crate::negotiate::{Accepted, Encoding, Form};
use crate::options::ListOptions;
use crate::registry::Served;
use crate::selection::Selection;
use crate::table::{self, IncludeObject};
use crate::{error, object};

/// The number of an event's JSON frame.
const JSON_FRAME: usize = 0;
/// The number of an event's protobuf frame.
const PROTOBUF_FRAME: usize = 1;
/// The number of an event's frame with metadata alone.
const METADATA_FRAME: usize = 2;
/// How often a quiet watch says up to where it has seen everything.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// A watch without a timeout ends after this long, and up to as long again.
const SHORTEST: u64 = 1_800;
/// No watch is asked to last longer: a clock has an end.
const LONGEST: u64 = u32::MAX as u64;

/// Answers a watch.
pub(super) async fn watch(call: &mut Call<'_>) -> Result<Response<Body>, ApiError> {
    let options = ListOptions::of_query(true, call.query)?;
    let selection = if call.info.name.is_empty() {
        Selection::new(&call.served, &options)?
    } else {
        Selection::name(&call.info.name)
    };
    let source = &call.server.config.source;
    let namespace = match (call.served.namespaced, call.info.namespace.as_str()) {
        (false, _) => None,
        (true, "") => selection.exact_namespace().map(str::to_owned),
        (true, namespace) => Some(namespace.to_owned()),
    };
    let after = match options.revision.as_str() {
        "" | "0" => None,
        text => Some(list::parse_revision(text)?),
    };
    let framer = Framer {
        served: call.served.clone(),
        accepted: call.accepted,
        include: match call.accepted.form {
            Form::Table => IncludeObject::from_query(call.query)?,
            Form::Object | Form::Metadata => IncludeObject::Metadata,
        },
        env: call.server.env().clone(),
    };
    let send_state = options.initial.unwrap_or(after.is_none());
    let mut first = Vec::new();
    let from = if send_state {
        if let Some(after) = after
            && after > source.revision()
        {
            return Err(error::of_source(Error::Future {
                asked: after,
                newest: source.revision(),
            }));
        }
        let filter = |object: &Object| selection.matches(object);
        let page = source
            .list(&ListRequest {
                resource: &call.served.storage,
                namespace: namespace.as_deref(),
                filter: &filter,
                at: None,
                after: None,
                limit: 0,
            })
            .await
            .map_err(error::of_source)?;
        for object in &page.objects {
            first.push(framer.object("ADDED", object));
        }
        if options.initial == Some(true) && options.bookmarks {
            first.push(framer.bookmark(page.revision, true));
        }
        page.revision
    } else {
        after.unwrap_or_else(|| source.revision())
    };
    let watch = source
        .watch(&WatchRequest {
            resource: &call.served.storage,
            namespace: namespace.as_deref(),
            after: from,
        })
        .await;
    let watch = match watch {
        Ok(watch) => Some(watch),
        // Clients expect this one inside the stream.
        Err(expired @ Error::Expired { .. }) => {
            first.clear();
            first.push(framer.failure(&error::of_source(expired)));
            None
        }
        Err(other) => return Err(error::of_source(other)),
    };
    let lifetime = timeout(call, &options);
    let now = Instant::now();
    let feed = Feed {
        watch,
        framer,
        selection,
        deadline: Box::pin(tokio::time::sleep_until(now + lifetime)),
        bookmark: options
            .bookmarks
            .then(|| Box::pin(tokio::time::sleep_until(now + BOOKMARK_EVERY))),
        told: from,
        sent: call
            .server
            .metrics
            .watch_events(&call.served.group, &call.served.plural),
        _open: call
            .server
            .metrics
            .long_running(&call.served.group, &call.served.plural),
    };
    Ok(stream_of(call, first, feed))
}

/// An answer that goes on: the first frames, then those of a feed.
fn stream_of(call: &Call<'_>, first: Vec<Bytes>, feed: Feed) -> Response<Body> {
    let head = stream::iter(first.into_iter().map(Ok::<Bytes, BoxError>));
    let tail = stream::unfold(feed, |mut feed| async move {
        let frames = feed.next().await?;
        Some((Ok::<Bytes, BoxError>(frames), feed))
    });
    let mut response = Response::new(Body::from_stream(head.chain(tail)));
    *response.status_mut() = StatusCode::OK;
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static(call.accepted.encoding.stream_content_type()),
    );
    headers.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("no-cache, private"),
    );
    response
}

/// How long a watch lasts.
fn timeout(call: &Call<'_>, options: &ListOptions) -> Duration {
    match options.timeout {
        None | Some(0) => Duration::from_secs(SHORTEST + call.server.env().random_u64() % SHORTEST),
        Some(seconds) => Duration::from_secs(u64::try_from(seconds).unwrap_or(0).min(LONGEST)),
    }
}

/// One client's stream of frames.
struct Feed {
    /// `None` once there is nothing more to come.
    watch: Option<Box<dyn Watch>>,
    framer: Framer,
    selection: Selection,
    deadline: std::pin::Pin<Box<Sleep>>,
    bookmark: Option<std::pin::Pin<Box<Sleep>>>,
    /// Up to where the client knows that it has everything.
    told: Revision,
    sent: Counter<u64, AtomicU64>,
    /// Counts this watch while it is open.
    _open: InFlight,
}

impl Feed {
    /// The next frames, `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            let watch = self.watch.as_mut()?;
            let bookmark = async {
                match &mut self.bookmark {
                    Some(sleep) => sleep.await,
                    None => futures::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                events = watch.next() => match events {
                    Ok(events) => {
                        if let Some(frames) = self.frames(&events) {
                            return Some(frames);
                        }
                    }
                    Err(Error::Closed(_)) => {
                        self.watch = None;
                        return None;
                    }
                    Err(failure) => {
                        self.watch = None;
                        return Some(self.framer.failure(&error::of_source(failure)));
                    }
                },
                () = &mut self.deadline => {
                    let seen = watch.seen();
                    self.watch = None;
                    if self.bookmark.is_some() && seen > self.told {
                        return Some(self.framer.bookmark(seen, false));
                    }
                    return None;
                }
                () = bookmark => {
                    let seen = watch.seen();
                    if let Some(sleep) = &mut self.bookmark {
                        sleep.as_mut().reset(Instant::now() + BOOKMARK_EVERY);
                    }
                    self.told = self.told.max(seen);
                    return Some(self.framer.bookmark(self.told, false));
                }
            }
        }
    }

    fn frames(&mut self, events: &[Arc<Event>]) -> Option<Bytes> {
        let mut frames = Vec::with_capacity(events.len());
        for event in events {
            if let Some(frame) = self.frame(event) {
                self.told = event.revision();
                self.sent.inc();
                frames.push(frame);
            }
        }
        match frames.len() {
            0 => None,
            1 => frames.pop(),
            _ => {
                let mut all = BytesMut::with_capacity(frames.iter().map(Bytes::len).sum());
                for frame in frames {
                    all.extend_from_slice(&frame);
                }
                Some(all.freeze())
            }
        }
    }

    /// An event as this client sees it: an object that enters or leaves the selection is added or deleted.
    fn frame(&self, event: &Event) -> Option<Bytes> {
        if self.selection.is_everything() {
            return Some(self.framer.event(event));
        }
        let now = self.selection.matches(&event.object);
        let before = event
            .previous
            .as_ref()
            .is_some_and(|previous| self.selection.matches(previous));
        match (event.kind, before, now) {
            (EventKind::Added, _, true) | (EventKind::Modified, true, true) => Some(self.framer.event(event)),
            (EventKind::Deleted, before, now) if before || now => Some(self.framer.event(event)),
            (EventKind::Modified, false, true) => Some(self.framer.object("ADDED", &event.object)),
            (EventKind::Modified, true, false) => {
                let previous = event.previous.as_ref()?;
                Some(self.framer.object("DELETED", &previous.at(event.revision())))
            }
            (EventKind::Added | EventKind::Modified | EventKind::Deleted, _, _) => None,
        }
    }
}

/// Makes frames in one client's form.
struct Framer {
    served: Arc<Served>,
    accepted: Accepted,
    include: IncludeObject,
    env: clock::Env,
}

impl Framer {
    /// An event's frame, shared between all watchers of this form where it is of the stored version.
    fn event(&self, event: &Event) -> Bytes {
        let word = match event.kind {
            EventKind::Added => "ADDED",
            EventKind::Modified => "MODIFIED",
            EventKind::Deleted => "DELETED",
        };
        let form = match (self.accepted.form, self.accepted.encoding) {
            _ if self.accepted.beta => return self.object(word, &event.object),
            (Form::Object, Encoding::Json | Encoding::Yaml) => JSON_FRAME,
            (Form::Object, Encoding::Protobuf) => PROTOBUF_FRAME,
            (Form::Metadata, Encoding::Json | Encoding::Yaml) => METADATA_FRAME,
            (Form::Metadata, Encoding::Protobuf) | (Form::Table, _) => {
                return self.object(word, &event.object);
            }
        };
        if form != METADATA_FRAME && !object::is_native(&self.served, &event.object) {
            return self.object(word, &event.object);
        }
        event
            .forms
            .get_or_encode(form, || self.object(word, &event.object))
    }

    /// A frame about a stored object.
    fn object(&self, word: &str, object: &Object) -> Bytes {
        match (self.accepted.form, self.accepted.encoding) {
            _ if self.accepted.beta => self.bytes(word, &object.json),
            (Form::Object, Encoding::Json | Encoding::Yaml) => {
                json_frame(word, &object::in_version(&self.served, object))
            }
            (Form::Metadata, Encoding::Json | Encoding::Yaml) => json_frame(word, &present::metadata(object)),
            (Form::Object, Encoding::Protobuf) => match present::protobuf(&self.served, object) {
                Ok(bytes) => codec::protobuf::watch_frame(word, &bytes),
                Err(error) => self.failure(&error),
            },
            (Form::Metadata, Encoding::Protobuf) | (Form::Table, _) => self.bytes(word, &object.json),
        }
    }

    /// A frame about an object's JSON.
    fn bytes(&self, word: &str, json: &[u8]) -> Bytes {
        match object::parse(&self.served, json) {
            Ok(value) => self.tree(word, value),
            Err(error) => self.failure(&error),
        }
    }

    fn tree(&self, word: &str, value: Value) -> Bytes {
        let value = match self.accepted.form {
            Form::Object => value,
            Form::Metadata => present::partial(&value),
            Form::Table => {
                let meta = json!({"resourceVersion": value["metadata"]["resourceVersion"]});
                table::table(&self.served, [value], meta, self.include, self.env.now(), true)
            }
        };
        self.raw(word, &value)
    }

    fn raw(&self, word: &str, value: &Value) -> Bytes {
        let value = &*self.accepted.in_version(value);
        match self.accepted.encoding {
            Encoding::Json | Encoding::Yaml => json_frame(word, value.to_string().as_bytes()),
            Encoding::Protobuf => match codec::protobuf::encode_watch_event(word, value) {
                Ok(frame) => frame,
                Err(error) => {
                    let status =
                        ApiError::internal(format!("the object cannot be encoded: {error}")).to_value();
                    codec::protobuf::encode_watch_event("ERROR", &status).unwrap_or_default()
                }
            },
        }
    }

    /// Says up to where the client has seen everything.
    fn bookmark(&self, revision: Revision, initial_end: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": revision.to_string(), "creationTimestamp": null});
        if initial_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let value = match self.accepted.form {
            Form::Object => json!({
                "kind": self.served.kind.as_str(), "apiVersion": self.served.api_version.as_str(),
                "metadata": metadata,
            }),
            Form::Metadata => json!({
                "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
            }),
            Form::Table => table::bookmark(&metadata),
        };
        self.raw("BOOKMARK", &value)
    }

    /// The last frame of a watch that cannot go on.
    fn failure(&self, error: &ApiError) -> Bytes {
        self.raw("ERROR", &error.to_value())
    }
}

fn json_frame(word: &str, json: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(json.len() + 40);
    frame.extend_from_slice(b"{\"type\":\"");
    frame.extend_from_slice(word.as_bytes());
    frame.extend_from_slice(b"\",\"object\":");
    frame.extend_from_slice(json);
    frame.extend_from_slice(b"}\n");
    frame.freeze()
}

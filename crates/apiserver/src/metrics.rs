//! `/metrics`: what the server counts, under the names that dashboards for Kubernetes know, and what others add.
//! Labels are bounded: a resource that is not served is counted under no name.

use std::fmt;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::time::Duration;

use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::body::Body;
use crate::request_info::RequestInfo;

/// What a request is counted under.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    verb: String,
    group: String,
    version: String,
    resource: String,
    subresource: String,
    scope: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TotalLabels {
    verb: String,
    group: String,
    version: String,
    resource: String,
    subresource: String,
    scope: &'static str,
    code: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResourceLabels {
    group: String,
    resource: String,
}

/// Whether a request is about something that the server serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// It is: its names are labels.
    Served,
    /// It is not: its names come from a stranger.
    Unknown,
}

type Hook = Box<dyn Fn(&mut String) + Send + Sync>;

/// The metrics of a server. Cheap to clone.
#[derive(Clone)]
pub struct Metrics(Arc<Inner>);

struct Inner {
    registry: Mutex<Registry>,
    hooks: Mutex<Vec<Hook>>,
    requests: Family<TotalLabels, Counter<u64, AtomicU64>>,
    durations: Family<RequestLabels, Histogram, fn() -> Histogram>,
    in_flight: Gauge<i64, AtomicI64>,
    long_running: Family<ResourceLabels, Gauge<i64, AtomicI64>>,
    watch_events: Family<ResourceLabels, Counter<u64, AtomicU64>>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

fn durations() -> Histogram {
    Histogram::new([
        0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
    ])
}

impl Metrics {
    /// Nothing counted yet.
    pub fn new() -> Self {
        let inner = Inner {
            registry: Mutex::default(),
            hooks: Mutex::default(),
            requests: Family::default(),
            durations: Family::new_with_constructor(durations),
            in_flight: Gauge::default(),
            long_running: Family::default(),
            watch_events: Family::default(),
        };
        {
            let mut registry = inner.registry.lock().unwrap_or_else(PoisonError::into_inner);
            registry.register(
                "apiserver_request",
                "Requests by verb, resource and answer",
                inner.requests.clone(),
            );
            registry.register(
                "apiserver_request_duration_seconds",
                "How long requests took until their answer began, watches and other long-running ones left out",
                inner.durations.clone(),
            );
            registry.register(
                "apiserver_current_inflight_requests",
                "Requests being answered",
                inner.in_flight.clone(),
            );
            registry.register(
                "apiserver_longrunning_requests",
                "Open watches and other long-running requests",
                inner.long_running.clone(),
            );
            registry.register(
                "apiserver_watch_events",
                "Events sent to watchers",
                inner.watch_events.clone(),
            );
        }
        Self(Arc::new(inner))
    }

    /// Adds metrics of others to the registry.
    pub fn register(&self, add: impl FnOnce(&mut Registry)) {
        add(&mut self.0.registry.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Adds metrics that are read when they are asked for: `write` appends lines in the text format.
    pub fn hook(&self, write: impl Fn(&mut String) + Send + Sync + 'static) {
        self.0
            .hooks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Box::new(write));
    }

    /// A request begins; dropping the answer ends it.
    #[must_use]
    pub fn begin(&self) -> InFlight {
        self.0.in_flight.inc();
        InFlight(self.0.in_flight.clone())
    }

    /// A request's answer begins after `elapsed`.
    pub fn answered(&self, info: &RequestInfo, known: Known, code: u16, elapsed: Duration) {
        let RequestLabels {
            verb,
            group,
            version,
            resource,
            subresource,
            scope,
        } = labels(info, known);
        if !is_long_running(info) {
            let labels = RequestLabels {
                verb: verb.clone(),
                group: group.clone(),
                version: version.clone(),
                resource: resource.clone(),
                subresource: subresource.clone(),
                scope,
            };
            self.0
                .durations
                .get_or_create(&labels)
                .observe(elapsed.as_secs_f64());
        }
        let labels = TotalLabels {
            verb,
            group,
            version,
            resource,
            subresource,
            scope,
            code,
        };
        self.0.requests.get_or_create(&labels).inc();
    }

    /// A watch (or another long-running request) of a served resource opens; dropping the answer closes it.
    #[must_use]
    pub fn long_running(&self, group: &str, resource: &str) -> InFlight {
        let labels = ResourceLabels {
            group: group.to_owned(),
            resource: resource.to_owned(),
        };
        let gauge = self.0.long_running.get_or_create(&labels).clone();
        gauge.inc();
        InFlight(gauge)
    }

    /// The counter of events sent to watchers of a served resource: get it once for each watch.
    pub fn watch_events(&self, group: &str, resource: &str) -> Counter<u64, AtomicU64> {
        let labels = ResourceLabels {
            group: group.to_owned(),
            resource: resource.to_owned(),
        };
        self.0.watch_events.get_or_create(&labels).clone()
    }

    /// Everything in the text format.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        {
            let registry = self.0.registry.lock().unwrap_or_else(PoisonError::into_inner);
            encode(&mut text, &registry).expect("a String takes all text");
        }
        // What the hooks write belongs before the end mark of OpenMetrics.
        let end = text.strip_suffix("# EOF\n").map_or(text.len(), str::len);
        text.truncate(end);
        for hook in self.0.hooks.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            hook(&mut text);
        }
        text.push_str("# EOF\n");
        text
    }

    /// The answer to `/metrics`.
    pub fn answer(&self) -> Response<Body> {
        let mut response = Response::new(Body::from(self.to_text()));
        *response.status_mut() = StatusCode::OK;
        response.headers_mut().insert(
            CONTENT_TYPE,
            HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8"),
        );
        response
    }
}

/// Counts one while it lives.
#[derive(Debug)]
pub struct InFlight(Gauge<i64, AtomicI64>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

fn is_long_running(info: &RequestInfo) -> bool {
    info.verb == "watch"
        || matches!(
            info.subresource.as_str(),
            "exec" | "attach" | "portforward" | "log" | "proxy"
        )
}

fn labels(info: &RequestInfo, known: Known) -> RequestLabels {
    let text = |value: &smol_str::SmolStr| match known {
        Known::Served => value.to_string(),
        Known::Unknown => String::new(),
    };
    let verb = match info.verb.as_str() {
        "get" => "GET",
        "list" => "LIST",
        "watch" => "WATCH",
        "create" | "post" => "POST",
        "update" | "put" => "PUT",
        "patch" => "PATCH",
        "delete" => "DELETE",
        "deletecollection" => "DELETECOLLECTION",
        _ => "other",
    };
    let scope = if !info.is_resource_request {
        ""
    } else if !info.name.is_empty() {
        "resource"
    } else if !info.namespace.is_empty() {
        "namespace"
    } else {
        "cluster"
    };
    RequestLabels {
        verb: verb.to_owned(),
        group: text(&info.group),
        version: text(&info.version),
        resource: text(&info.resource),
        subresource: text(&info.subresource),
        scope,
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::query::Query;

    #[test]
    fn counts_under_bounded_names() {
        let metrics = Metrics::new();
        let info = |path: &str| RequestInfo::parse(&Method::GET, path, &Query::default());
        let second = Duration::from_secs(1);
        metrics.answered(&info("/api/v1/namespaces/a/pods"), Known::Served, 200, second);
        metrics.answered(
            &info("/apis/evil/v666/attack-by-name"),
            Known::Unknown,
            404,
            second,
        );
        let open = metrics.long_running("", "pods");
        metrics.hook(|text| text.push_str("store_objects 7\n"));
        let text = metrics.to_text();
        for line in [
            "apiserver_request_total{verb=\"LIST\",group=\"\",version=\"v1\",resource=\"pods\",subresource=\"\",scope=\"namespace\",code=\"200\"} 1",
            "apiserver_request_total{verb=\"LIST\",group=\"\",version=\"\",resource=\"\",subresource=\"\",scope=\"cluster\",code=\"404\"} 1",
            "apiserver_longrunning_requests{group=\"\",resource=\"pods\"} 1",
            "store_objects 7",
            "# EOF",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
        assert!(!text.contains("evil"));
        drop(open);
        assert!(
            metrics
                .to_text()
                .contains("apiserver_longrunning_requests{group=\"\",resource=\"pods\"} 0")
        );
    }
}

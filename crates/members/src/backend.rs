//! What answers for simulated pods: logs, and what happens on an upgraded connection (`exec`, `attach` and
//! `portforward`, see [`crate::exec`] and [`crate::upgrade`]).

use apiserver::options::LogOptions;
use apiserver::query::Query;
use apiserver::{Body, PodBackend, RequestInfo, Subject, UserInfo};
use bytes::Bytes;
use futures::StreamExt;
use futures::future::BoxFuture;
use http::{HeaderValue, Request, Response, StatusCode, header};
use jiff::Timestamp;
use machinery::{ApiError, Reason};
use serde_json::Value;

use crate::exec;
use crate::said::{self, Said};
use crate::world::{name, text};

/// Answers for pods that nothing runs.
#[derive(Debug, Clone, Copy, Default)]
pub struct SimulatedPods;

impl PodBackend for SimulatedPods {
    fn connect(
        &self,
        info: RequestInfo,
        _user: UserInfo,
        subject: Subject,
        request: Request<Body>,
    ) -> BoxFuture<'_, Response<Body>> {
        let answer = match info.subresource.as_str() {
            "log" => {
                LogOptions::of_query(&info.name, &query(&request)).and_then(|options| log(subject, &options))
            }
            "exec" | "attach" => exec::answer(&info, subject, request),
            "portforward" => exec::forward(&info, subject.object, request),
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

/// A request's query.
pub(crate) fn query(request: &Request<Body>) -> Query {
    Query::parse(request.uri().query().unwrap_or_default())
}

pub(crate) fn refuse(error: &ApiError) -> Response<Body> {
    let mut response = Response::new(Body::from(Bytes::from(error.to_value().to_string())));
    *response.status_mut() = StatusCode::from_u16(error.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The container that a request means: the one it names, or the only one.
pub(crate) fn container<'a>(pod: &'a Value, wanted: &str) -> Result<&'a Value, ApiError> {
    let of = |field: &str| {
        pod["spec"][field]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default()
            .iter()
    };
    if !wanted.is_empty() {
        return ["containers", "initContainers", "ephemeralContainers"]
            .into_iter()
            .flat_map(of)
            .find(|container| container["name"] == wanted)
            .ok_or_else(|| {
                ApiError::bad_request(format!("container {wanted} is not valid for pod {}", name(pod)))
            });
    }
    match pod["spec"]["containers"].as_array().map(Vec::as_slice) {
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
    }
}

fn log(subject: Subject, options: &LogOptions) -> Result<Response<Body>, ApiError> {
    let pod = &subject.object;
    let container = container(pod, &options.container)?.clone();
    let (container_name, pod_name) = (text(&container, "/name"), name(pod));
    if options.previous {
        return Err(ApiError::bad_request(format!(
            "previous terminated container \"{container_name}\" in pod \"{pod_name}\" not found"
        )));
    }
    let Some((_, state)) = said::state(pod, container_name) else {
        return Err(ApiError::bad_request(format!(
            "container \"{container_name}\" in pod \"{pod_name}\" is waiting to start"
        )));
    };
    let started = text(state, "/startedAt");
    let printed = said::printed(pod, &container);
    let speaks = printed.is_none();
    let all = format!(
        "{}; started {started}\n{}",
        said::notice(pod, &container),
        printed.unwrap_or_default()
    );
    let first = cut(&all, started, options);
    let body = if options.follow {
        let later = said::later(subject, &container, speaks).filter_map(|said| {
            std::future::ready(match said {
                Said::Line(line) => Some(Ok::<_, apiserver::BoxError>(Bytes::from(line))),
                Said::Over => None,
            })
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

/// What options leave of a log, all of whose lines are of one time.
fn cut(all: &str, time: &str, options: &LogOptions) -> Vec<u8> {
    let is_older = |since| time.parse::<Timestamp>().is_ok_and(|time| time < since);
    let lines: Vec<&str> = all.split_inclusive('\n').collect();
    let number =
        |number: Option<i64>| number.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX));
    let wanted = if options.since.is_some_and(is_older) {
        0
    } else {
        number(options.tail_lines)
    };
    let mut text = String::new();
    for line in &lines[lines.len().saturating_sub(wanted)..] {
        if options.timestamps {
            text.push_str(time);
            text.push(' ');
        }
        text.push_str(line);
    }
    let mut bytes = text.into_bytes();
    bytes.truncate(number(options.limit_bytes));
    bytes
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn subject(pod: &Value) -> Subject {
        Subject::new(pod.clone(), || Box::pin(std::future::ready(None)))
    }

    #[tokio::test(start_paused = true)]
    async fn logs_are_of_a_container_that_runs() {
        let pod = json!({
            "metadata": {"name": "p", "namespace": "n"},
            "spec": {"containers": [{"name": "a"}, {"name": "b"}, {"name": "d", "args": ["echo", "hi"]}]},
            "status": {"containerStatuses": [
                {"name": "a", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}},
                {"name": "d", "state": {"waiting": {}}, "lastState": {"terminated": {"startedAt": "T"}}},
            ]},
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
            "container=d",
            "container=d&tailLines=1&timestamps=1&follow=1",
            "container=a&sinceTime=2026-01-01T00:00:01Z",
            "container=a&sinceTime=abc",
            "container=a&tailLines=x",
            "container=a&tailLines=-1",
            "container=a&limitBytes=0",
            "container=a&sinceSeconds=0",
            "container=a&sinceSeconds=1&sinceTime=",
            "container=a&stream=All",
        ] {
            let options = LogOptions::of_query("p", &Query::parse(query));
            said.push(match options.and_then(|options| log(subject(&pod), &options)) {
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
                "400: a container name must be specified for pod p, choose one of: [a b d]",
                "n/p a: simulated by tombolo, nothing runs here; started 2026-01-01T00:00:00Z\n",
                "2026-01",
                "",
                "400: previous terminated container \"a\" in pod \"p\" not found",
                "400: container \"b\" in pod \"p\" is waiting to start",
                "400: container c is not valid for pod p",
                "n/p d: simulated by tombolo, nothing runs here; started T\nhi\n",
                "T hi\n",
                "",
                "400: parsing time \"abc\" as \"2006-01-02T15:04:05Z07:00\": it is no such time",
                "400: strconv.ParseInt: parsing \"x\": invalid syntax",
                "422: PodLogOptions \"p\" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0",
                "422: PodLogOptions \"p\" is invalid: limitBytes: Invalid value: 0: must be greater than 0",
                "422: PodLogOptions \"p\" is invalid: sinceSeconds: Invalid value: 0: must be greater than 0",
                "422: PodLogOptions \"p\" is invalid: []: Forbidden: at most one of `sinceTime` or `sinceSeconds` may \
                 be specified",
                "422: PodLogOptions \"p\" is invalid: stream: Forbidden: may not be specified",
            ]
        );
    }
}

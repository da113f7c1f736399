//! What answers for simulated pods: logs, and what happens on an upgraded connection (`exec`, `attach` and
//! `portforward`, see [`crate::exec`] and [`crate::upgrade`]).

use std::time::Duration;

use apiserver::options::LogOptions;
use apiserver::query::Query;
use apiserver::{Body, PodBackend, RequestInfo, UserInfo};
use bytes::Bytes;
use futures::StreamExt;
use futures::future::BoxFuture;
use http::{HeaderValue, Request, Response, StatusCode, header};
use jiff::Timestamp;
use machinery::{ApiError, Reason};
use serde_json::Value;

use crate::exec;
use crate::world::{name, namespace, text};

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
            "log" => {
                LogOptions::of_query(&info.name, &query(&request)).and_then(|options| log(&object, &options))
            }
            "exec" | "attach" => exec::answer(&info, object, request),
            "portforward" => exec::forward(&info, object, request),
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

fn log(pod: &Value, options: &LogOptions) -> Result<Response<Body>, ApiError> {
    let container = text(container(pod, &options.container)?, "/name").to_owned();
    let pod_name = name(pod);
    if options.previous {
        return Err(ApiError::bad_request(format!(
            "previous terminated container \"{container}\" in pod \"{pod_name}\" not found"
        )));
    }
    let Some(started) = started(pod, &container) else {
        return Err(ApiError::bad_request(format!(
            "container \"{container}\" in pod \"{pod_name}\" is waiting to start"
        )));
    };
    let stamp = if options.timestamps {
        format!("{started} ")
    } else {
        String::new()
    };
    let mut first = format!(
        "{stamp}{}/{pod_name} {container}: simulated by tombolo, nothing runs here; started {started}\n",
        namespace(pod),
    )
    .into_bytes();
    let is_older = |since| started.parse::<Timestamp>().is_ok_and(|started| started < since);
    if options.tail_lines == Some(0) || options.since.is_some_and(is_older) {
        first.clear();
    }
    let limit = options.limit_bytes.and_then(|limit| usize::try_from(limit).ok());
    first.truncate(limit.unwrap_or(usize::MAX));
    let body = if options.follow {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

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
            let options = LogOptions::of_query("p", &Query::parse(query));
            said.push(match options.and_then(|options| log(&pod, &options)) {
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

//! The built-in predictor: says through the tunnel how many more replicas of something the child has room for.
//!
//! To the hub it is a server at `localhost:PORT` of the child, as the peers' is, and speaks their protocol. There is no
//! such port: only what comes through the tunnel reaches it. How room is counted is `placement`'s, what there is to
//! count [`Sight`]'s; here is only HTTP.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use ::tunnel::{BoxIo, DialRefusal, Dialer};
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use placement::capacity::Requirements;
use placement::predict;
use serde_json::Value;
use tokio::time::Instant;

use crate::metrics::{Metrics, Said};
use crate::sight::Sight;

/// How much of a connection waits in memory.
const PIPE: usize = 16 << 10;
/// The longest question that is read.
const QUESTION_LIMIT: usize = 64 << 10;
/// How long a question waits for the first lists of nodes and pods.
const FIRST_LOOK: Duration = Duration::from_secs(10);

/// The predictor, and a dialer that reaches it beside all else.
#[derive(Clone)]
pub(crate) struct Predictor {
    sight: Arc<Sight>,
    /// `host:port` that stands for it.
    address: String,
    others: Arc<dyn Dialer>,
    metrics: Metrics,
}

impl Predictor {
    /// A predictor of a child at `address`; what else is dialed goes to `others`.
    pub(crate) fn new(sight: Arc<Sight>, address: String, others: Arc<dyn Dialer>, metrics: Metrics) -> Self {
        Self {
            sight,
            address,
            others,
            metrics,
        }
    }
}

impl Dialer for Predictor {
    fn dial(&self, proto: &str, address: &str) -> BoxFuture<'static, Result<BoxIo, DialRefusal>> {
        if proto != "tcp" || !address.eq_ignore_ascii_case(&self.address) {
            return self.others.dial(proto, address);
        }
        let (sight, metrics) = (Arc::clone(&self.sight), self.metrics.clone());
        Box::pin(async move {
            let (near, far) = tokio::io::duplex(PIPE);
            // It ends when the tunnel's side of the pipe is dropped.
            tokio::spawn(serve(sight, metrics, TokioIo::new(far)));
            Ok(Box::new(near) as BoxIo)
        })
    }
}

async fn serve(sight: Arc<Sight>, metrics: Metrics, io: TokioIo<tokio::io::DuplexStream>) {
    let service = service_fn(|request: Request<Incoming>| {
        let (sight, metrics) = (Arc::clone(&sight), metrics.clone());
        async move {
            let (began, is_question) = (Instant::now(), request.uri().path() == predict::PATH);
            let response = answer(&sight, &metrics, request).await;
            if is_question {
                let said = if response.status() == StatusCode::OK {
                    Said::Room
                } else {
                    Said::Error
                };
                metrics.answered(said, began.elapsed());
            }
            Ok::<_, Infallible>(response)
        }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .serve_connection(io, service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a connection to the predictor broke");
    }
}

async fn answer(sight: &Sight, metrics: &Metrics, request: Request<Incoming>) -> Response<Full<Bytes>> {
    match (request.method(), request.uri().path()) {
        (&Method::POST, predict::PATH) => {}
        (_, predict::PATH) => return text(StatusCode::METHOD_NOT_ALLOWED, "ask with POST"),
        (&Method::GET, "/replicas/unscheduled") => {
            return text(StatusCode::NOT_IMPLEMENTED, "unscheduled replicas are not told");
        }
        _ => return text(StatusCode::NOT_FOUND, "there is nothing here"),
    }
    let Ok(body) = Limited::new(request.into_body(), QUESTION_LIMIT).collect().await else {
        let problem = format!("the question is longer than {QUESTION_LIMIT} bytes");
        return text(StatusCode::PAYLOAD_TOO_LARGE, problem);
    };
    let requirements = match read(&body.to_bytes()) {
        Ok(requirements) => requirements,
        Err(problem) => return text(StatusCode::BAD_REQUEST, problem),
    };
    let (nodes, pods) = (sight.nodes(), sight.pods());
    let first_look = async { tokio::join!(nodes.ready(), pods.ready()) };
    if tokio::time::timeout(FIRST_LOOK, first_look).await.is_err() {
        return text(
            StatusCode::SERVICE_UNAVAILABLE,
            "nodes or pods of the cluster cannot be watched",
        );
    }
    let (nodes, pods) = (nodes.list(), pods.list());
    let began = Instant::now();
    let room = requirements.room(nodes.iter().map(Arc::as_ref), pods.iter().map(Arc::as_ref));
    metrics.added_up(began.elapsed());
    let mut answer = text(StatusCode::OK, predict::answer_body(room).to_string());
    answer.headers_mut().insert(
        header::CONTENT_TYPE,
        header::HeaderValue::from_static("application/json"),
    );
    answer
}

fn read(body: &[u8]) -> Result<Requirements, String> {
    let value: Value =
        serde_json::from_slice(body).map_err(|error| format!("the question is no JSON: {error}"))?;
    Requirements::from_value(&value).map_err(|error| error.to_string())
}

fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use testplane::Plane;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use api::kubernetes;
    use kubeio::Client;

    struct Nowhere;

    impl Dialer for Nowhere {
        fn dial(&self, _: &str, address: &str) -> BoxFuture<'static, Result<BoxIo, DialRefusal>> {
            let address = address.to_owned();
            Box::pin(async move { Err(DialRefusal::NotAllowed { address }) })
        }
    }

    /// A child with nodes of 8 and 15 processors, and one pod on the first that uses 2.
    async fn child() -> Client {
        let plane = Plane::start(&testplane::paused_env()).await;
        let nodes = &kubernetes::NODES;
        for (name, processors) in [("n", "8"), ("m", "15")] {
            let amounts = json!({"cpu": processors, "memory": "16Gi", "pods": "110"});
            plane
                .create(nodes, None, &json!({"metadata": {"name": name}}))
                .await;
            let status = json!({"allocatable": amounts, "capacity": amounts});
            plane.change_status(nodes, None, name, &status).await;
        }
        plane.create_namespaces(&["foo"]).await;
        let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [
            {"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}]}});
        plane.create(&kubernetes::PODS, Some("foo"), &pod).await;
        plane.client
    }

    async fn ask(predictor: &Predictor, head: &str, body: &str) -> (String, String) {
        let mut io = predictor.dial("tcp", "LOCALHOST:8080").await.unwrap();
        let request = format!(
            "{head} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        io.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        io.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head[9..12].to_owned(), body.to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn answers_through_the_dialer_alone() {
        let sight = Arc::new(Sight::new(child().await, true));
        let metrics = Metrics::default();
        let address = "localhost:8080".to_owned();
        let predictor = Predictor::new(sight, address, Arc::new(Nowhere), metrics.clone());
        let question = json!({"nodeSelector": {}, "tolerations": [], "affinity": {},
            "resources": {"requests": {"cpu": "1500m"}}});
        let said = ask(&predictor, "POST /replicas/predict", &question.to_string()).await;
        assert_eq!(
            said,
            ("200".to_owned(), r#"{"replicas":{"default":14}}"#.to_owned()),
            "C4: 4 and 10"
        );
        let long = "x".repeat(QUESTION_LIMIT + 1);
        for (head, body, status) in [
            ("POST /replicas/predict", "{", "400"),
            (
                "POST /replicas/predict",
                r#"{"resources": {"requests": {"cpu": "lots"}}}"#,
                "400",
            ),
            ("POST /replicas/predict", long.as_str(), "413"),
            ("GET /replicas/predict", "", "405"),
            ("GET /replicas/unscheduled?x=y", "", "501"),
            ("GET /", "", "404"),
        ] {
            assert_eq!(ask(&predictor, head, body).await.0, status, "{head}");
        }
        let counted = metrics.render();
        for (result, count) in [("success", 1), ("error", 4)] {
            let line = format!(
                "clusternet_predictor_predictor_attempts_total{{result=\"{result}\",profile=\"default\"}} {count}\n"
            );
            assert!(counted.contains(&line), "{line} is not in {counted}");
        }
        assert!(matches!(
            predictor.dial("tcp", "localhost:8081").await,
            Err(DialRefusal::NotAllowed { .. })
        ));
    }
}

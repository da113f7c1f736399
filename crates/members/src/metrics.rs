//! `metrics.k8s.io` of a simulated cluster: a running container uses what it requests, and never nothing; a node uses
//! what its pods use. Enough for `kubectl top`, and for what reads usage from a metrics server.

use apiserver::query::Query;
use apiserver::{Body, GroupHandler, RequestInfo, UserInfo};
use bytes::Bytes;
use clock::Env;
use futures::future::BoxFuture;
use http::{HeaderValue, Request, Response, header};
use jiff::Timestamp;
use kubeio::{Client, ListOptions};
use machinery::{ApiError, ApiResource, Reason};
use serde_json::{Value, json};

use crate::backend::refuse;
use crate::kubelet::seconds;
use crate::scheduling::container_requests;
use crate::world::{NODES, PODS, containers, name, namespace, text};

const GROUP: &str = "metrics.k8s.io";
const VERSION: &str = "v1beta1";

/// What a container uses that asks for less, in thousandths of a processor and in bytes.
const LEAST: Used = Used {
    cpu_milli: 1,
    memory_bytes: 8 << 20,
};

/// What uses something.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Used {
    cpu_milli: i128,
    memory_bytes: i128,
}

impl Used {
    fn of_container(container: &Value) -> Self {
        let (cpu_milli, memory_bytes) = container_requests(container);
        Self {
            cpu_milli: cpu_milli.max(LEAST.cpu_milli),
            memory_bytes: memory_bytes.max(LEAST.memory_bytes),
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            cpu_milli: self.cpu_milli + other.cpu_milli,
            memory_bytes: self.memory_bytes + other.memory_bytes,
        }
    }

    fn to_value(self) -> Value {
        json!({
            "cpu": format!("{}m", self.cpu_milli),
            "memory": format!("{}Ki", self.memory_bytes >> 10),
        })
    }
}

/// Serves `metrics.k8s.io/v1beta1` from a cluster's nodes and pods.
#[derive(Debug)]
pub struct SimulatedMetrics {
    client: Client,
    env: Env,
}

impl SimulatedMetrics {
    /// `client` reads nodes and pods; requests are authorized before they come here.
    pub fn new(client: Client, env: Env) -> Self {
        Self { client, env }
    }

    async fn answer(&self, info: &RequestInfo, query: &Query) -> Result<Value, ApiError> {
        let (kind, resource) = match info.resource.as_str() {
            "nodes" => ("NodeMetrics", &NODES),
            "pods" => ("PodMetrics", &PODS),
            _ => {
                return Err(missing(
                    "the server could not find the requested resource".to_owned(),
                ));
            }
        };
        if !matches!(info.verb.as_str(), "get" | "list") || !info.subresource.is_empty() {
            return Err(ApiError::new(
                Reason::MethodNotAllowed,
                "the server does not allow this method on the requested resource",
            ));
        }
        let chosen = if info.verb == "get" {
            ListOptions {
                field_selector: format!("metadata.name={}", info.name),
                ..ListOptions::default()
            }
        } else {
            ListOptions {
                label_selector: query.get("labelSelector").unwrap_or_default().to_owned(),
                field_selector: query.get("fieldSelector").unwrap_or_default().to_owned(),
                ..ListOptions::default()
            }
        };
        let place = Some(info.namespace.as_str()).filter(|namespace| !namespace.is_empty());
        let objects = self.all(resource, place, &chosen).await?;
        let pods = if info.resource == "nodes" {
            self.all(&PODS, None, &ListOptions::default()).await?
        } else {
            Vec::new()
        };
        let now = self.env.now();
        let measure = |object: &Value| {
            if info.resource == "nodes" {
                Some(node_metrics(object, &pods, now))
            } else {
                pod_metrics(object, now)
            }
        };
        let mut items: Vec<Value> = objects.iter().filter_map(measure).collect();
        if info.verb == "get" {
            return items
                .pop()
                .ok_or_else(|| missing(format!("{}.{GROUP} \"{}\" not found", info.resource, info.name)));
        }
        Ok(json!({
            "kind": format!("{kind}List"),
            "apiVersion": format!("{GROUP}/{VERSION}"),
            "metadata": {},
            "items": items,
        }))
    }

    async fn all(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        options: &ListOptions,
    ) -> Result<Vec<Value>, ApiError> {
        match self.client.list_all(resource, namespace, options).await {
            Ok(listed) => Ok(listed.items),
            Err(kubeio::Error::Api(error)) => Err(error),
            Err(error) => Err(ApiError::internal(error.to_string())),
        }
    }
}

fn missing(message: String) -> ApiError {
    ApiError::new(Reason::NotFound, message)
}

fn is_running(pod: &Value) -> bool {
    text(pod, "/status/phase") == "Running"
}

fn measured(kind: &str, object: &Value, now: Timestamp) -> Value {
    let now = seconds(now);
    let mut measured = json!({
        "kind": kind,
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "metadata": {"name": name(object), "creationTimestamp": now},
        "timestamp": now,
        "window": "30s",
    });
    if !namespace(object).is_empty() {
        measured["metadata"]["namespace"] = json!(namespace(object));
    }
    if let Some(labels) = object["metadata"].get("labels") {
        measured["metadata"]["labels"] = labels.clone();
    }
    measured
}

fn pod_metrics(pod: &Value, now: Timestamp) -> Option<Value> {
    if !is_running(pod) {
        return None;
    }
    let used = |container: &Value| json!({"name": container["name"], "usage": Used::of_container(container).to_value()});
    let mut metrics = measured("PodMetrics", pod, now);
    metrics["containers"] = containers(pod).map(used).collect();
    Some(metrics)
}

fn node_metrics(node: &Value, pods: &[Value], now: Timestamp) -> Value {
    let here = |pod: &&Value| is_running(pod) && text(pod, "/spec/nodeName") == name(node);
    let used = pods
        .iter()
        .filter(here)
        .flat_map(containers)
        .map(Used::of_container)
        .fold(Used::default(), Used::plus);
    let mut metrics = measured("NodeMetrics", node, now);
    metrics["usage"] = used.to_value();
    metrics
}

impl GroupHandler for SimulatedMetrics {
    fn group(&self) -> &str {
        GROUP
    }

    fn version(&self) -> &str {
        VERSION
    }

    fn discovery(&self) -> Value {
        json!({
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": format!("{GROUP}/{VERSION}"),
            "resources": [
                {"name": "nodes", "singularName": "", "namespaced": false, "kind": "NodeMetrics",
                 "verbs": ["get", "list"]},
                {"name": "pods", "singularName": "", "namespaced": true, "kind": "PodMetrics",
                 "verbs": ["get", "list"]},
            ],
        })
    }

    fn handle(
        &self,
        info: RequestInfo,
        _user: UserInfo,
        request: Request<Body>,
    ) -> BoxFuture<'_, Response<Body>> {
        Box::pin(async move {
            let query = Query::parse(request.uri().query().unwrap_or_default());
            match self.answer(&info, &query).await {
                Ok(value) => {
                    let mut response = Response::new(Body::from(Bytes::from(value.to_string())));
                    let json = HeaderValue::from_static("application/json");
                    response.headers_mut().insert(header::CONTENT_TYPE, json);
                    response
                }
                Err(error) => refuse(&error),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(phase: &str, node: &str) -> Value {
        json!({
            "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"}},
            "spec": {"nodeName": node, "containers": [
                {"name": "web", "resources": {"requests": {"cpu": "250m", "memory": "64Mi"}}},
                {"name": "idle"},
            ]},
            "status": {"phase": phase},
        })
    }

    #[test]
    fn containers_use_what_they_request() {
        let metrics = pod_metrics(&pod("Running", "a"), Timestamp::UNIX_EPOCH).expect("it runs");
        assert_eq!(metrics["metadata"]["namespace"], "shop");
        assert_eq!(metrics["metadata"]["labels"]["app"], "web");
        assert_eq!(
            metrics["containers"],
            json!([
                {"name": "web", "usage": {"cpu": "250m", "memory": "65536Ki"}},
                {"name": "idle", "usage": {"cpu": "1m", "memory": "8192Ki"}},
            ])
        );
        assert_eq!(pod_metrics(&pod("Pending", "a"), Timestamp::UNIX_EPOCH), None);
    }

    #[test]
    fn nodes_use_what_their_running_pods_use() {
        let pods = [pod("Running", "a"), pod("Running", "b"), pod("Succeeded", "a")];
        let node = json!({"metadata": {"name": "a"}});
        let metrics = node_metrics(&node, &pods, Timestamp::UNIX_EPOCH);
        assert_eq!(metrics["usage"], json!({"cpu": "251m", "memory": "73728Ki"}));
        assert_eq!(metrics["timestamp"], "1970-01-01T00:00:00Z");
        let empty = node_metrics(&node, &[], Timestamp::UNIX_EPOCH);
        assert_eq!(empty["usage"], json!({"cpu": "0m", "memory": "0Ki"}));
    }
}

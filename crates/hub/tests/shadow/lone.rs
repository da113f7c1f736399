//! D3: a group of the parent's that has only subresources, beside a normal one with the same plural (clusternet#459).

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use apiserver::RequestInfo;
use futures::future::BoxFuture;
use http::Response;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::*;

const LONE: &str = "subresources.example.io";

/// Starts and stops machines that another group has.
struct Buttons;

impl GroupHandler for Buttons {
    fn group(&self) -> &str {
        LONE
    }

    fn version(&self) -> &str {
        "v1"
    }

    fn discovery(&self) -> Value {
        let resource = |name: &str| json!({"name": name, "singularName": "", "namespaced": true, "kind": "Machine", "verbs": ["update"]});
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{LONE}/v1"),
            "resources": [resource("machines/start"), resource("machines/stop")]})
    }

    fn handle(&self, _: RequestInfo, _: UserInfo, _: Request<Body>) -> BoxFuture<'_, Response<Body>> {
        Box::pin(std::future::ready(Response::new(Body::from("{}"))))
    }
}

/// Counts the log lines that name the group.
#[derive(Clone, Default)]
struct Lines(Arc<AtomicUsize>);

impl Visit for Lines {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "group_version" && format!("{value:?}").contains(LONE) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::INFO
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut self.clone());
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test(start_paused = true)]
async fn d3_a_group_with_only_subresources_does_no_harm() {
    let lines = Lines::default();
    let _listening = tracing::subscriber::set_default(lines.clone());
    let fixture = Fixture::start_beside(Some(Arc::new(Buttons))).await;
    let mut machines = widget_crd();
    machines["metadata"]["name"] = json!("machines.example.io");
    machines["spec"]["names"] =
        json!({"plural": "machines", "singular": "machine", "kind": "Machine", "listKind": "MachineList"});
    fixture
        .client
        .create(&kubernetes::CUSTOM_RESOURCE_DEFINITIONS, None, &machines)
        .await
        .expect("a good definition");
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    let (_, discovery) = fixture.send("GET", "", &[], &Value::Null).await;
    let shown = discovery["resources"].as_array().expect("a list").iter();
    let shown: Vec<(&str, &str)> = shown
        .filter_map(|it| Some((it["name"].as_str()?, it["group"].as_str()?)))
        .filter(|(name, _)| name.starts_with("machines") || *name == "deployments")
        .collect();
    assert_eq!(shown, [("deployments", "apps"), ("machines", "example.io")]);

    let machine =
        json!({"apiVersion": "example.io/v1", "kind": "Machine", "metadata": {"name": "m"}, "spec": {}});
    let created = fixture.create("/namespaces/a/machines", &machine).await;
    assert_eq!(created["spec"]["size"], 3);
    assert_eq!(
        fixture.manifest("machines.a.m").await["template"]["apiVersion"],
        "example.io/v1"
    );
    let press = "/namespaces/a/machines/m/start";
    assert_eq!(fixture.send("PUT", press, &[], &machine).await.0, 404);
    fixture.create(DEPLOYMENTS, &deployment("web")).await;

    assert_eq!(lines.0.load(Ordering::Relaxed), 1, "it is said once");
}

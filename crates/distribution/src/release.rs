//! Description of charts → HelmReleases, one a chart, for an agent that executes them.

use std::sync::Arc;

use api::{apps, finalizers, reasons};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use machinery::meta::{self, OwnerReference};
use serde_json::{Value, json};

use crate::action::{Action, Next, Plan, correction};
use crate::labels as names;

/// What one plan may look at.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// The Description.
    pub description: &'a Value,
    /// The HelmReleases that carry the Description's uid.
    pub releases: &'a [Arc<Value>],
    /// A HelmRelease of the Description's namespace by its name, whatever it carries.
    pub named: &'a dyn Fn(&str) -> Option<Arc<Value>>,
}

/// What to do so that exactly the releases of a Description are there.
pub fn plan(view: &View<'_>) -> Plan {
    let mut plan = Plan::default();
    let description = view.description;
    if meta::is_deleting(description) || description["spec"]["deployer"] != "Helm" {
        return plan;
    }
    let wanted = match build(description) {
        Ok(wanted) => wanted,
        Err((reason, why)) => {
            plan.push(Action::warning(description, reason, why.clone()));
            plan.next = Next::Blocked(why);
            return plan;
        }
    };
    let (mut made, mut blocked) = (Vec::new(), Vec::new());
    for release in &wanted {
        let name = meta::name(release);
        match (view.named)(name) {
            None => {
                plan.push(Action::Create {
                    resource: apps::HELM_RELEASES,
                    object: release.clone(),
                });
                made.push(name);
            }
            Some(have) if meta::is_deleting(&have) => blocked.push(name),
            Some(have) => correct(description, &have, release, &mut plan),
        }
    }
    if !made.is_empty() {
        let note = format!("HelmReleases are created: {}", made.join(", "));
        plan.push(Action::normal(description, reasons::HELM_RELEASES_CREATED, note));
    }
    let is_wanted = |it: &Value| wanted.iter().any(|release| meta::name(release) == meta::name(it));
    for release in view
        .releases
        .iter()
        .filter(|it| !is_wanted(it) && !meta::is_deleting(it))
    {
        plan.push(Action::delete(&apps::HELM_RELEASES, release));
    }
    if !blocked.is_empty() {
        plan.next = Next::Blocked(format!(
            "waiting for HelmReleases to be deleted: {}",
            blocked.join(", ")
        ));
    }
    plan
}

/// Gives a release that is there what it lacks.
fn correct(description: &Value, have: &Value, wanted: &Value, plan: &mut Plan) {
    let mut spec = wanted["spec"].clone();
    if have["spec"]["releaseName"].is_null() {
        // It was made before releases were named, and is installed under its own name.
        spec.as_object_mut().and_then(|spec| spec.remove("releaseName"));
    }
    if let Some(patch) = correction(have, wanted, &spec) {
        plan.push(Action::patch(&apps::HELM_RELEASES, have, patch));
        let note = format!("HelmRelease {} is updated", meta::name(have));
        plan.push(Action::normal(description, reasons::HELM_RELEASE_UPDATED, note));
    }
}

/// The releases that a Description asks for, or the event's reason and text of what is wrong with it.
fn build(description: &Value) -> Result<Vec<Value>, (&'static str, String)> {
    let list = |field: &str| description["spec"][field].as_array().cloned().unwrap_or_default();
    let (charts, raw, chart_raw) = (list("charts"), list("raw"), list("chartRaw"));
    if charts.len() != raw.len() || charts.len() != chart_raw.len() {
        let why = format!(
            "charts, raw and chartRaw must be of equal lengths, not {}, {} and {}",
            charts.len(),
            raw.len(),
            chart_raw.len()
        );
        return Err((reasons::UNEQUAL_LENGTHS, why));
    }
    let bytes = |field: &str, index: usize, text: &Value| {
        let text = text.as_str().unwrap_or_default();
        let fault = |error| broken(field, index, format!("not base64: {error}"));
        BASE64.decode(text).map_err(fault)
    };
    let mut releases = Vec::new();
    for (index, chart) in charts.iter().enumerate() {
        let values = bytes("raw", index, &raw[index])?;
        let object = bytes("chartRaw", index, &chart_raw[index])?;
        let object: Value = serde_json::from_slice(&object)
            .map_err(|error| broken("chartRaw", index, format!("not a HelmChart in JSON: {error}")))?;
        if !object["spec"].is_object() {
            return Err(broken("chartRaw", index, "a HelmChart without a spec".to_owned()));
        }
        let release = release(description, chart, &values, &object);
        // A hyphen joins namespace and name, and both may have some.
        let is_same = |other: &Value| meta::name(other) == meta::name(&release);
        if let Some(other) = releases.iter().position(is_same) {
            let why = format!(
                "its HelmRelease would have the name of that of charts[{other}], {:?}: rename one of the HelmCharts",
                meta::name(&release)
            );
            return Err(broken("charts", index, why));
        }
        releases.push(release);
    }
    Ok(releases)
}

fn broken(field: &str, index: usize, why: String) -> (&'static str, String) {
    (
        reasons::HELM_RELEASE_FAILURE,
        format!("spec.{field}[{index}]: {why}"),
    )
}

fn release(description: &Value, chart: &Value, values: &[u8], object: &Value) -> Value {
    let text = |field: &str| chart[field].as_str().unwrap_or_default();
    let mut spec = object["spec"].clone();
    // What the server adds where it is missing; an override may have taken it away.
    for (field, default) in [("createNamespace", json!(true)), ("timeoutSeconds", json!(300))] {
        if spec[field].is_null() {
            spec[field] = default;
        }
    }
    spec["releaseName"] = json!(text("name"));
    let values = values.trim_ascii();
    if !values.is_empty() {
        spec["overrides"] = json!(BASE64.encode(values));
    }
    let mut owner = OwnerReference::controller_of(description);
    owner.api_version = apps::DESCRIPTIONS.api_version();
    owner.kind = apps::DESCRIPTIONS.kind.to_string();
    let mut labels = meta::labels(object).cloned().unwrap_or_default();
    labels.extend(names::descent(&apps::DESCRIPTIONS, description));
    json!({
        "apiVersion": apps::HELM_RELEASES.api_version(), "kind": apps::HELM_RELEASES.kind,
        "metadata": {
            "namespace": meta::namespace(description),
            "name": format!("{}-{}-{}", meta::name(description), text("namespace"), text("name")),
            "labels": labels, "finalizers": [finalizers::APP],
            "ownerReferences": [owner.to_value()],
        },
        "spec": spec,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::World;

    const NAMESPACE: &str = "ns-a";
    const NAME: &str = "app-x7k2p-helm";

    fn chart(name: &str, spec: &Value) -> Value {
        json!({"apiVersion": "apps.clusternet.io/v1alpha1", "kind": "HelmChart",
            "metadata": {"namespace": "foo", "name": name, "labels": {"team": "shop"}}, "spec": spec})
    }

    fn mysql() -> Value {
        chart(
            "mysql",
            &json!({"repo": "https://charts", "chart": "mysql", "version": "8.6.2", "targetNamespace": "db"}),
        )
    }

    fn describe(world: &mut World, charts: &[(Value, &str)]) {
        let encode = |text: String| json!(BASE64.encode(text));
        let names = charts
            .iter()
            .map(|(it, _)| json!({"namespace": "foo", "name": meta::name(it)}));
        let spec = json!({
            "deployer": "Helm", "charts": names.collect::<Value>(),
            "raw": charts.iter().map(|(_, values)| encode((*values).to_owned())).collect::<Value>(),
            "chartRaw": charts.iter().map(|(it, _)| encode(it.to_string())).collect::<Value>(),
        });
        let labels = json!({"clusters.clusternet.io/cluster-id": "id-a", "apps.clusternet.io/subs.uid": "s"});
        world.put(
            &apps::DESCRIPTIONS,
            json!({"metadata": {"namespace": NAMESPACE, "name": NAME, "uid": "d", "labels": labels}, "spec": spec}),
        );
    }

    fn pass(world: &World) -> Plan {
        let description = world.get(&apps::DESCRIPTIONS, NAMESPACE, NAME).unwrap();
        plan(&View {
            description,
            releases: &world.labelled(&apps::HELM_RELEASES, "apps.clusternet.io/config.uid", "d"),
            named: &|name| world.get(&apps::HELM_RELEASES, NAMESPACE, name).cloned(),
        })
    }

    fn release(world: &World, chart: &str) -> Value {
        let name = format!("{NAME}-foo-{chart}");
        Value::clone(world.get(&apps::HELM_RELEASES, NAMESPACE, &name).unwrap())
    }

    #[test]
    fn makes_one_release_a_chart() {
        let mut world = World::default();
        let plain = chart(
            "web",
            &json!({"repo": "oci://r", "chart": "w", "targetNamespace": "web", "createNamespace": false}),
        );
        describe(&mut world, &[(mysql(), " {\"a\":1}\n"), (plain, "")]);
        world.apply(&pass(&world));
        assert!(!pass(&world).writes());
        assert_eq!(world.events, ["HelmReleasesCreated"]);
        let sql = release(&world, "mysql");
        assert_eq!(
            sql["spec"],
            json!({"repo": "https://charts", "chart": "mysql", "version": "8.6.2", "targetNamespace": "db",
                "createNamespace": true, "timeoutSeconds": 300, "releaseName": "mysql",
                "overrides": BASE64.encode("{\"a\":1}")})
        );
        assert_eq!(
            sql["metadata"]["labels"],
            json!({"team": "shop", "clusternet.io/created-by": "clusternet-controller-manager",
                "apps.clusternet.io/config.kind": "Description", "apps.clusternet.io/config.name": NAME,
                "apps.clusternet.io/config.namespace": NAMESPACE, "apps.clusternet.io/config.uid": "d",
                "clusters.clusternet.io/cluster-id": "id-a", "apps.clusternet.io/subs.uid": "s"})
        );
        assert_eq!(sql["metadata"]["finalizers"], json!([finalizers::APP]));
        assert_eq!(meta::controller(&sql).unwrap().uid, "d");
        let web = release(&world, "web")["spec"].clone();
        assert_eq!(
            (&web["createNamespace"], &web["overrides"]),
            (&json!(false), &Value::Null)
        );
    }

    #[test]
    fn follows_its_description() {
        let mut world = World::default();
        let secret = json!({"repo": "https://charts", "chart": "mysql", "targetNamespace": "db",
            "chartPullSecret": {"name": "pull"}});
        describe(
            &mut world,
            &[(chart("mysql", &secret), "a: 1"), (chart("web", &secret), "")],
        );
        world.apply(&pass(&world));
        describe(&mut world, &[(mysql(), "a: 2")]);
        world.apply(&pass(&world));
        assert!(!pass(&world).writes());
        assert_eq!(world.events, ["HelmReleasesCreated", "HelmReleaseUpdated"]);
        let spec = release(&world, "mysql")["spec"].clone();
        assert_eq!(spec["overrides"], BASE64.encode("a: 2"));
        assert_eq!(spec["chartPullSecret"], Value::Null);
        assert!(meta::is_deleting(&release(&world, "web")), "its chart is gone");

        describe(&mut world, &[(mysql(), "a: 2"), (chart("web", &secret), "")]);
        let Next::Blocked(why) = pass(&world).next else {
            panic!("it waits")
        };
        assert!(why.contains("app-x7k2p-helm-foo-web"), "{why}");
        world.release(
            &apps::HELM_RELEASES,
            NAMESPACE,
            "app-x7k2p-helm-foo-web",
            finalizers::APP,
        );
        world.apply(&pass(&world));
        assert!(!meta::is_deleting(&release(&world, "web")));
    }

    #[test]
    fn takes_over_what_is_there_and_leaves_its_name() {
        let mut world = World::default();
        describe(&mut world, &[(mysql(), "")]);
        let name = format!("{NAME}-foo-mysql");
        let old = json!({"metadata": {"namespace": NAMESPACE, "name": name}, "spec": {"chart": "mysql"}});
        world.put(&apps::HELM_RELEASES, old);
        world.apply(&pass(&world));
        assert!(!pass(&world).writes());
        let sql = release(&world, "mysql");
        assert_eq!(sql["spec"]["releaseName"], Value::Null);
        assert_eq!(meta::controller(&sql).unwrap().uid, "d");
    }

    #[test]
    fn two_charts_do_not_share_a_release() {
        let mut world = World::default();
        describe(&mut world, &[(mysql(), ""), (mysql(), "")]);
        let mut description = Value::clone(world.get(&apps::DESCRIPTIONS, NAMESPACE, NAME).unwrap());
        description["spec"]["charts"] =
            json!([{"namespace": "a-b", "name": "c"}, {"namespace": "a", "name": "b-c"}]);
        world.put(&apps::DESCRIPTIONS, description);
        let plan = pass(&world);
        assert!(!plan.writes());
        let Next::Blocked(why) = plan.next else {
            panic!("it is refused")
        };
        assert!(
            why.starts_with("spec.charts[1]: ") && why.contains("charts[0]"),
            "{why}"
        );
    }

    #[test]
    fn says_what_is_wrong_with_a_description() {
        let broken = |field: &str, list: Value| {
            let mut world = World::default();
            describe(&mut world, &[(mysql(), "")]);
            let mut description = Value::clone(world.get(&apps::DESCRIPTIONS, NAMESPACE, NAME).unwrap());
            description["spec"][field] = list;
            world.put(&apps::DESCRIPTIONS, description);
            let plan = pass(&world);
            assert!(!plan.writes());
            world.apply(&plan);
            let Next::Blocked(why) = plan.next else {
                panic!("{field} is taken")
            };
            (world.events.pop().unwrap(), why)
        };
        for (field, list, reason, expected) in [
            ("raw", json!([]), "UnequalLengths", "not 1, 0 and 1"),
            (
                "raw",
                json!(["%"]),
                "HelmReleaseFailure",
                "spec.raw[0]: not base64",
            ),
            (
                "chartRaw",
                json!([BASE64.encode("{")]),
                "HelmReleaseFailure",
                "spec.chartRaw[0]: not a HelmChart",
            ),
            (
                "chartRaw",
                json!([BASE64.encode("[]")]),
                "HelmReleaseFailure",
                "spec.chartRaw[0]: a HelmChart without a spec",
            ),
        ] {
            let (told, why) = broken(field, list);
            assert_eq!(told, reason);
            assert!(why.contains(expected), "{why}");
        }
    }
}

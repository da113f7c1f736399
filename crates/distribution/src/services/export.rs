//! A child's ServiceExports: which copies its agent keeps on the parent, and what becomes of the export.
//!
//! What the plan names of ServiceExports is the child's, what it names of EndpointSlices the parent's.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::{finalizers, labels, mcs, reasons};
use jiff::Timestamp;
use machinery::{conditions, meta};
use serde_json::{Value, json};

use super::slice::{self, Wanted, settle};
use super::{CONFLICT, SERVICE_NAME, ServiceId, copy_name};
use crate::action::{Action, Plan, Target, add_finalizer, remove_finalizers};

/// Whether exports are served (the gate `MultiClusterService`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// They are.
    On,
    /// Not any more: what was exported is taken back.
    Off,
}

/// What one plan may look at.
pub struct View<'a> {
    /// The Service.
    pub id: &'a ServiceId,
    /// Whether exports are served.
    pub service: Service,
    /// The ServiceExport.
    pub export: Option<&'a Value>,
    /// The Service of the same name.
    pub exported: Option<&'a Value>,
    /// EndpointSlices of the child; those of other Services are passed over.
    pub slices: &'a [Arc<Value>],
    /// The child's dedicated namespace on the parent.
    pub home: &'a str,
    /// EndpointSlices in it, with all that are the Service's.
    pub copies: &'a [Arc<Value>],
    /// Now.
    pub now: Timestamp,
}

/// What to do about an export, or about what is left of one.
pub fn plan(view: &View<'_>) -> Plan {
    let mut plan = Plan::default();
    let Some(export) = view.export else {
        plan.actions = keep(view, &BTreeMap::new());
        return plan;
    };
    let exports = &mcs::SERVICE_EXPORTS;
    if meta::is_deleting(export) {
        plan.actions = keep(view, &BTreeMap::new());
        let release = remove_finalizers(export, &[finalizers::APP]);
        plan.actions
            .extend(release.map(|patch| Action::patch(exports, export, patch)));
        return plan;
    }
    if view.service == Service::Off {
        // Not another system's export.
        if meta::has_finalizer(export, finalizers::APP) {
            plan.actions = keep(view, &BTreeMap::new());
            let why = "the agent of this cluster runs without the feature gate MultiClusterService";
            let verdict = Verdict {
                holds: false,
                reason: reasons::EXPORT_NOT_SERVED,
                message: why.to_owned(),
            };
            let last = say(view, export, verdict).or_else(|| {
                remove_finalizers(export, &[finalizers::APP])
                    .map(|patch| Action::patch(exports, export, patch))
            });
            plan.actions.extend(last);
        }
        return plan;
    }
    if let Some(patch) = add_finalizer(export, finalizers::APP) {
        // The rest follows once that is there: nothing may stay on the parent without it.
        plan.push(Action::patch(exports, export, patch));
        return plan;
    }
    let mut left_out = BTreeSet::new();
    let copies = match view.exported {
        Some(service) if service["spec"]["type"] != "ExternalName" => wanted(view, export, &mut left_out),
        Some(_) | None => BTreeMap::new(),
    };
    plan.actions = keep(view, &copies);
    plan.actions
        .extend(say(view, export, Verdict::of(view, &left_out)));
    plan
}

/// What an export is told.
struct Verdict {
    holds: bool,
    reason: &'static str,
    message: String,
}

impl Verdict {
    fn of(view: &View<'_>, left_out: &BTreeSet<String>) -> Self {
        let (reason, message) = match (view.exported, slice::tell(left_out)) {
            (None, _) => (
                reasons::SERVICE_NOT_FOUND,
                format!("there is no Service \"{}\" in this namespace", view.id.name),
            ),
            (Some(service), _) if service["spec"]["type"] == "ExternalName" => (
                reasons::INVALID_SERVICE_TYPE,
                "a Service of type ExternalName has no endpoints that could be exported".to_owned(),
            ),
            (Some(_), None) => (reasons::EXPORTED, "its endpoints are on the parent".to_owned()),
            (Some(_), Some(addresses)) => (
                reasons::ADDRESSES_LEFT_OUT,
                format!("its endpoints are on the parent without {addresses}"),
            ),
        };
        let holds = [reasons::EXPORTED, reasons::ADDRESSES_LEFT_OUT].contains(&reason);
        Self {
            holds,
            reason,
            message,
        }
    }
}

/// The copies that an export is to have.
fn wanted(view: &View<'_>, export: &Value, left_out: &mut BTreeSet<String>) -> BTreeMap<String, Wanted> {
    let id = view.id;
    let is_taken = |name: &str| {
        let mut others = view.copies.iter().filter(|it| meta::name(it) == name);
        others.any(|it| !id.is_of(it, labels::CREATED_BY_AGENT))
    };
    let mut wanted = BTreeMap::new();
    for slice in view.slices {
        if meta::namespace(slice) != id.namespace
            || meta::label(slice, SERVICE_NAME) != Some(&id.name)
            || meta::is_deleting(slice)
        {
            continue;
        }
        let Some(content) = slice::read(slice, left_out) else {
            continue;
        };
        let mut marks = id.labels(labels::CREATED_BY_AGENT);
        marks.insert(SERVICE_NAME.to_owned(), json!(id.derived_name()));
        if let Some(namespace) = meta::label(export, labels::SUBSCRIPTION_NAMESPACE) {
            marks.insert(labels::SUBSCRIPTION_NAMESPACE.to_owned(), json!(namespace));
        }
        let name = copy_name(&id.namespace, meta::name(slice), &is_taken);
        let copy = Wanted {
            labels: marks,
            owner: None,
            content,
        };
        wanted.insert(name, copy);
    }
    wanted
}

/// Brings the Service's copies to what is wanted.
fn keep(view: &View<'_>, wanted: &BTreeMap<String, Wanted>) -> Vec<Action> {
    let own = view
        .copies
        .iter()
        .filter(|it| view.id.is_of(it, labels::CREATED_BY_AGENT));
    settle(view.home, wanted, &own.collect::<Vec<_>>())
}

/// Says on the export what became of it, unless it is said. Of conflicts with other clusters only what the parent told
/// is known.
fn say(view: &View<'_>, export: &Value, valid: Verdict) -> Option<Action> {
    let have: Vec<Value> = slice::items(&export["status"], "conditions").cloned().collect();
    let mut wanted = have.clone();
    let mut merge = |kind: &str, verdict: &Verdict| {
        let status = if verdict.holds { "True" } else { "False" };
        let condition = json!({
            "type": kind, "status": status, "reason": verdict.reason, "message": verdict.message,
            "lastTransitionTime": conditions::time(view.now),
        });
        wanted = conditions::merge(&wanted, condition);
    };
    merge(reasons::VALID, &valid);
    let mut own = view
        .copies
        .iter()
        .filter(|it| view.id.is_of(it, labels::CREATED_BY_AGENT));
    let told = own.find_map(|it| meta::annotation(it, CONFLICT));
    let was_told = have.iter().any(|it| it["type"] == reasons::CONFLICT);
    match told.filter(|_| valid.holds) {
        Some(conflict) => merge(
            reasons::CONFLICT,
            &Verdict {
                holds: true,
                reason: reasons::PORTS_DIFFER,
                message: conflict.to_owned(),
            },
        ),
        None if was_told => merge(
            reasons::CONFLICT,
            &Verdict {
                holds: false,
                reason: reasons::NO_CONFLICT,
                message: "the clusters that export it agree".to_owned(),
            },
        ),
        None => {}
    }
    if wanted == have {
        return None;
    }
    let mut patch = json!({"status": {"conditions": wanted}});
    if !meta::resource_version(export).is_empty() {
        patch["metadata"]["resourceVersion"] = json!(meta::resource_version(export));
    }
    Some(Action::Patch {
        resource: mcs::SERVICE_EXPORTS,
        target: Target::of(export),
        subresource: Some("status"),
        patch,
    })
}

#[cfg(test)]
mod tests {
    use api::kubernetes;

    use super::*;
    use crate::world::World;

    const HOME: &str = "clusternet-abcde";

    fn id() -> ServiceId {
        ServiceId::new("test", "my-service")
    }

    /// A child and its namespace on the parent; copies and originals are told apart by their namespaces.
    struct Both {
        world: World,
        service: Service,
    }

    impl Both {
        fn new() -> Self {
            let (world, service) = (World::default(), Service::On);
            let mut both = Self { world, service };
            both.export(json!({"labels": {labels::SUBSCRIPTION_NAMESPACE: "shop"}}));
            both.serve("ClusterIP");
            both.slice("my-service-x7k", &["10.0.0.1", "10.0.0.2"]);
            both
        }

        fn export(&mut self, metadata: Value) {
            let mut object = json!({"metadata": metadata});
            object["metadata"]["namespace"] = json!("test");
            object["metadata"]["name"] = json!("my-service");
            self.world.put(&mcs::SERVICE_EXPORTS, object);
        }

        fn serve(&mut self, kind: &str) {
            let service =
                json!({"metadata": {"namespace": "test", "name": "my-service"}, "spec": {"type": kind}});
            self.world.put(&kubernetes::SERVICES, service);
        }

        fn slice(&mut self, name: &str, addresses: &[&str]) {
            self.put(
                "test",
                name,
                addresses,
                &json!({SERVICE_NAME: "my-service", "endpointslice.kubernetes.io/managed-by": "c"}),
            );
        }

        fn put(&mut self, namespace: &str, name: &str, addresses: &[&str], labels: &Value) {
            let endpoints: Vec<Value> = addresses
                .iter()
                .map(|address| json!({"addresses": [address], "conditions": {"ready": true}, "nodeName": "n", "targetRef": {"kind": "Pod"}}))
                .collect();
            let kind = if addresses.iter().any(|address| address.contains(':')) {
                "IPv6"
            } else {
                "IPv4"
            };
            let slice = json!({
                "metadata": {"namespace": namespace, "name": name, "labels": labels},
                "addressType": kind, "endpoints": endpoints, "ports": [{"name": "http", "protocol": "TCP", "port": 80}],
            });
            self.world.put(&kubernetes::ENDPOINT_SLICES, slice);
        }

        fn export_now(&self) -> Option<&Arc<Value>> {
            self.world.get(&mcs::SERVICE_EXPORTS, "test", "my-service")
        }

        fn plan(&self) -> Plan {
            let all = self.world.list(&kubernetes::ENDPOINT_SLICES);
            let (copies, slices): (Vec<_>, Vec<_>) =
                all.into_iter().partition(|it| meta::namespace(it) == HOME);
            let exported = self.world.get(&kubernetes::SERVICES, "test", "my-service");
            plan(&View {
                id: &id(),
                service: self.service,
                export: self.export_now().map(|it| &**it),
                exported: exported.map(|it| &**it),
                slices: &slices,
                home: HOME,
                copies: &copies,
                now: Timestamp::UNIX_EPOCH,
            })
        }

        /// Plans and carries out until there is nothing left, soon.
        fn settle(&mut self) -> &mut Self {
            for _ in 0..3 {
                let plan = self.plan();
                self.world.apply(&plan);
                assert!(self.world.events.is_empty());
            }
            assert_eq!(self.plan(), Plan::default());
            self
        }

        /// Copies with their addresses, and what the export says.
        fn seen(&self) -> (Vec<String>, String) {
            let copies = self.world.list(&kubernetes::ENDPOINT_SLICES);
            let copies = copies.iter().filter(|it| meta::namespace(it) == HOME);
            let said = self.export_now().map(|it| &it["status"]["conditions"][0]);
            let said = said.map_or_else(String::new, |it| {
                format!(
                    "{} {}",
                    it["status"].as_str().unwrap_or_default(),
                    it["reason"].as_str().unwrap_or_default()
                )
            });
            let told = copies.map(|it| {
                let addresses: Vec<&str> = slice::items(it, "endpoints")
                    .flat_map(|endpoint| slice::items(endpoint, "addresses"))
                    .filter_map(Value::as_str)
                    .collect();
                format!("{} {}", meta::name(it), addresses.join(","))
            });
            (told.collect(), said)
        }
    }

    #[test]
    fn copies_what_the_service_has() {
        let mut both = Both::new();
        both.settle();
        let copy = both
            .world
            .get(&kubernetes::ENDPOINT_SLICES, HOME, "test-my-service-x7k");
        let copy = copy.unwrap();
        assert_eq!(
            copy["metadata"]["labels"],
            json!({
                labels::MULTI_CLUSTER_SERVICE_NAME: "my-service", labels::MULTI_CLUSTER_SERVICE_NAMESPACE: "test",
                labels::CREATED_BY: "clusternet-agent", SERVICE_NAME: "derived-test-sgvukfmp95",
                labels::SUBSCRIPTION_NAMESPACE: "shop",
            })
        );
        assert_eq!(
            copy["ports"],
            json!([{"name": "http", "protocol": "TCP", "port": 80}])
        );
        assert_eq!(
            copy["endpoints"][0],
            json!({"addresses": ["10.0.0.1"], "conditions": {"ready": true}})
        );
        assert!(meta::has_finalizer(both.export_now().unwrap(), finalizers::APP));
    }

    #[test]
    fn follows_every_change() {
        type Change = fn(&mut Both);
        let before = "test-my-service-x7k 10.0.0.1,10.0.0.2";
        let steps: [(&str, Change, &[&str], &str); 12] = [
            ("nothing", |_| {}, &[before], "True Exported"),
            (
                "an endpoint goes",
                |it| it.slice("my-service-x7k", &["10.0.0.2"]),
                &["test-my-service-x7k 10.0.0.2"],
                "True Exported",
            ),
            (
                "a slice comes",
                |it| it.slice("my-service-a", &["fd00::1"]),
                &["test-my-service-a fd00::1", before],
                "True Exported",
            ),
            (
                "the family changes",
                |it| it.slice("my-service-x7k", &["fd00::1"]),
                &["test-my-service-x7k fd00::1"],
                "True Exported",
            ),
            (
                "a slice goes",
                |it| {
                    it.world
                        .delete(&kubernetes::ENDPOINT_SLICES, "test", "my-service-x7k");
                },
                &[],
                "True Exported",
            ),
            (
                "an address that is nobody's",
                |it| it.slice("my-service-x7k", &["10.0.0.1", "127.0.0.1"]),
                &["test-my-service-x7k 10.0.0.1"],
                "True AddressesLeftOut",
            ),
            (
                "another Service's slice",
                |it| it.put("test", "other", &["10.0.0.9"], &json!({SERVICE_NAME: "other"})),
                &[before],
                "True Exported",
            ),
            (
                "a slice of the same name elsewhere",
                |it| {
                    it.put(
                        "prod",
                        "my-service-q",
                        &["10.0.0.9"],
                        &json!({SERVICE_NAME: "my-service"}),
                    );
                },
                &[before],
                "True Exported",
            ),
            (
                "the Service goes",
                |it| it.world.delete(&kubernetes::SERVICES, "test", "my-service"),
                &[],
                "False ServiceNotFound",
            ),
            (
                "the Service becomes a name",
                |it| it.serve("ExternalName"),
                &[],
                "False InvalidServiceType",
            ),
            (
                "the export goes",
                |it| it.world.delete(&mcs::SERVICE_EXPORTS, "test", "my-service"),
                &[],
                "",
            ),
            (
                "the gate is closed",
                |it| it.service = Service::Off,
                &[],
                "False NotServed",
            ),
        ];
        for (what, change, copies, said) in steps {
            let mut both = Both::new();
            both.settle();
            change(&mut both);
            let (have, told) = both.settle().seen();
            assert_eq!(
                (have, told.as_str()),
                (copies.iter().map(|it| (*it).to_owned()).collect(), said),
                "{what}"
            );
            let held = both
                .export_now()
                .is_some_and(|it| meta::has_finalizer(it, finalizers::APP));
            assert_eq!(held, both.service == Service::On && !told.is_empty(), "{what}");
        }
    }

    #[test]
    fn a_vanished_export_leaves_no_copy_and_others_are_spared() {
        let mut both = Both::new();
        both.settle();
        both.export(json!({}));
        both.world.delete(&mcs::SERVICE_EXPORTS, "test", "my-service");
        let mut others = ServiceId::new("test", "other").labels(labels::CREATED_BY_AGENT);
        both.put(HOME, "test-other", &["10.0.0.3"], &json!(others));
        others = id().labels(labels::CREATED_BY_CONTROLLERS);
        both.put(HOME, "derived", &["10.0.0.4"], &json!(others));
        let (copies, _) = both.settle().seen();
        assert_eq!(copies, ["derived 10.0.0.4", "test-other 10.0.0.3"]);
    }

    #[test]
    fn puts_back_what_others_change_on_the_parent() {
        let mut both = Both::new();
        let before = both.settle().seen();
        let mut copy = Value::clone(
            both.world
                .get(&kubernetes::ENDPOINT_SLICES, HOME, "test-my-service-x7k")
                .unwrap(),
        );
        copy["endpoints"] = json!(null);
        meta::set_label(&mut copy, SERVICE_NAME, "mine");
        meta::set_label(&mut copy, "theirs", "stays");
        both.world.put(&kubernetes::ENDPOINT_SLICES, copy);
        both.export(json!({"finalizers": [finalizers::APP]}));
        assert_eq!(both.settle().seen(), before);
        let copy = both
            .world
            .get(&kubernetes::ENDPOINT_SLICES, HOME, "test-my-service-x7k")
            .unwrap();
        assert_eq!(meta::label(copy, "theirs"), Some("stays"));
        assert_eq!(
            meta::label(copy, labels::SUBSCRIPTION_NAMESPACE),
            None,
            "the export does not say it any more"
        );
    }

    #[test]
    fn two_slices_of_one_copys_name_live_side_by_side() {
        let mut both = Both::new();
        let theirs = ServiceId::new("test-my", "service").labels(labels::CREATED_BY_AGENT);
        both.put(HOME, "test-my-service-x7k", &["10.0.0.9"], &json!(theirs));
        let (copies, said) = both.settle().seen();
        assert_eq!((copies.len(), said.as_str()), (2, "True Exported"));
        assert_eq!(copies[0], "test-my-service-x7k 10.0.0.9");
        assert!(
            copies[1].starts_with("test-my-service-x7k-") && copies[1].ends_with(" 10.0.0.1,10.0.0.2"),
            "{copies:?}"
        );
    }

    #[test]
    fn passes_on_what_the_parent_says_of_conflicts() {
        let mut both = Both::new();
        both.settle();
        let conflicts = |both: &Both| {
            let conditions = &both.export_now().unwrap()["status"]["conditions"];
            let all = conditions.as_array().unwrap().iter();
            let it = all.filter(|it| it["type"] == "Conflict");
            it.map(|it| (it["status"].clone(), it["reason"].clone(), it["message"].clone()))
                .collect::<Vec<_>>()
        };
        assert!(conflicts(&both).is_empty(), "nothing is known");
        let say = |both: &mut Both, what: &Value| {
            let slices = &kubernetes::ENDPOINT_SLICES;
            let mut copy = Value::clone(both.world.get(slices, HOME, "test-my-service-x7k").unwrap());
            copy["metadata"]["annotations"] = what.clone();
            both.world.put(slices, copy);
            both.settle();
        };
        say(&mut both, &json!({CONFLICT: "they differ"}));
        assert_eq!(
            conflicts(&both),
            [(json!("True"), json!("PortsDiffer"), json!("they differ"))]
        );
        say(&mut both, &json!({}));
        assert_eq!(conflicts(&both)[0].0, "False");
    }

    #[test]
    fn another_systems_export_is_not_touched_without_the_gate() {
        let mut both = Both::new();
        both.service = Service::Off;
        assert_eq!(both.plan(), Plan::default());
    }
}

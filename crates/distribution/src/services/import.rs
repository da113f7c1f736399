//! ServiceImports on the parent: each gets a Service and the EndpointSlices of all clusters that export it.
//!
//! Slices count as the cluster's whose dedicated namespace they lie in, which no child chooses; what they say of
//! themselves is only of which Service they are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::{annotations, kubernetes, labels, mcs, reasons};
use machinery::meta;
use serde_json::{Value, json};

use super::slice::{self, Wanted, described, settle};
use super::{SERVICE_NAME, ServiceId, copy_name};
use crate::action::{Action, Next, Plan, Target};
use crate::labels::{LABEL_VALUE_LIMIT, set_if_fits};

/// A cluster, as its dedicated namespace tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    /// Its name.
    pub cluster: String,
    /// Its id.
    pub id: String,
}

/// Whose slices lie in a namespace: those of the ManagedCluster in it that the namespace was made for, as long as both
/// stay.
pub fn home(namespace: Option<&Value>, members: &[Arc<Value>]) -> Option<Home> {
    let namespace = namespace.filter(|it| {
        meta::label(it, labels::CREATED_BY) == Some(labels::CREATED_BY_AGENT) && !meta::is_deleting(it)
    })?;
    let id = meta::label(namespace, labels::CLUSTER_ID).filter(|id| !id.is_empty())?;
    let is_it = |it: &&Arc<Value>| {
        meta::namespace(it) == meta::name(namespace)
            && it["spec"]["clusterId"] == id
            && !meta::is_deleting(it)
    };
    let cluster = members.iter().filter(is_it).min_by_key(|it| age(it))?;
    Some(Home {
        cluster: meta::name(cluster).to_owned(),
        id: id.to_owned(),
    })
}

/// What one plan may look at.
pub struct View<'a> {
    /// The Service of the clusters.
    pub id: &'a ServiceId,
    /// The namespace that it is imported into.
    pub namespace: &'a str,
    /// The ServiceImports in it.
    pub imports: &'a [Arc<Value>],
    /// EndpointSlices of any namespace, with all copies of the Service's.
    pub slices: &'a [Arc<Value>],
    /// Whose dedicated namespace that is.
    pub home: &'a dyn Fn(&str) -> Option<Home>,
    /// The Service of the derived name in the namespace, whoever's it is.
    pub service: Option<&'a Value>,
}

/// What to do about the imports of a Service into a namespace.
pub fn plan(view: &View<'_>) -> Plan {
    let mut plan = Plan::default();
    let import = acting(view, &mut plan);
    let ours = |it: &&Value| view.id.is_of(it, labels::CREATED_BY_CONTROLLERS);
    let foreign = view.service.filter(|it| !ours(it));
    let services = &kubernetes::SERVICES;
    let (Some(import), None) = (import, foreign) else {
        plan.actions.extend(keep(view, &BTreeMap::new()));
        let service = view.service.filter(ours).filter(|it| !meta::is_deleting(it));
        plan.actions
            .extend(service.map(|service| Action::delete(services, service)));
        if let (Some(import), Some(_)) = (import, foreign) {
            let name = view.id.derived_name();
            let why = format!(
                "the Service \"{name}\" in this namespace is not the import's: delete it, so that the import's can be made"
            );
            plan.actions.extend(report(import, &BTreeSet::new()));
            plan.push(Action::warning(import, reasons::DERIVED_NAME_TAKEN, why.clone()));
            plan.next = Next::Blocked(why);
        }
        return plan;
    };
    match view.service {
        None => plan.push(create(view, import)),
        Some(service) => plan
            .actions
            .extend(difference(view, import, service).map(|patch| Action::patch(services, service, patch))),
    }
    let mut gathered = gather(view, import);
    let slices = keep(view, &gathered.wanted);
    let told = !slices.is_empty();
    plan.actions.extend(slices);
    let clusters: BTreeSet<String> = gathered.offers.keys().cloned().collect();
    plan.actions.extend(report(import, &clusters));
    if told {
        gathered.tell(import, &mut plan);
    }
    plan
}

/// The import that counts: the oldest that can be served. The others are told why they do not.
fn acting<'a>(view: &View<'a>, plan: &mut Plan) -> Option<&'a Value> {
    let mut own: Vec<&Value> = view
        .imports
        .iter()
        .map(|it| &**it)
        .filter(|it| {
            meta::namespace(it) == view.namespace && ServiceId::of_labels(it).as_ref() == Some(view.id)
        })
        .filter(|it| !meta::is_deleting(it))
        .collect();
    own.sort_by_key(|it| age(it));
    let mut acting: Option<&Value> = None;
    for import in own {
        if import["spec"]["type"] != "ClusterSetIP" {
            plan.push(Action::warning(
                import,
                reasons::UNSUPPORTED_IMPORT_TYPE,
                format!(
                    "spec.type {} cannot be served: only ClusterSetIP can",
                    import["spec"]["type"]
                ),
            ));
        } else if let Some(first) = acting {
            plan.push(Action::warning(
                import,
                reasons::IMPORTED_TWICE,
                format!(
                    "the ServiceImport \"{}\", which is older, imports the same Service into this namespace: only that counts",
                    meta::name(first)
                ),
            ));
        } else {
            acting = Some(import);
        }
    }
    acting
}

/// What puts objects in the order in which they were made.
fn age(object: &Value) -> (&str, &str) {
    (meta::creation_timestamp(object), meta::name(object))
}

/// Port names with their protocols.
type Offer = BTreeSet<(String, String)>;

/// What the clusters have.
struct Gathered {
    wanted: BTreeMap<String, Wanted>,
    /// By cluster; empty for one that says nothing of ports, having no endpoints.
    offers: BTreeMap<String, Offer>,
    left_out: BTreeMap<String, BTreeSet<String>>,
}

fn gather(view: &View<'_>, import: &Value) -> Gathered {
    let mut gathered = Gathered {
        wanted: BTreeMap::new(),
        offers: BTreeMap::new(),
        left_out: BTreeMap::new(),
    };
    let id = view.id;
    let is_taken = |name: &str| {
        let mut others = view.slices.iter().filter(|it| meta::name(it) == name);
        others
            .any(|it| meta::namespace(it) == view.namespace && !id.is_of(it, labels::CREATED_BY_CONTROLLERS))
    };
    let mut sources: Vec<&Arc<Value>> = view
        .slices
        .iter()
        .filter(|it| is_source(id, it) && !meta::is_deleting(it))
        .collect();
    sources.sort_by_key(|it| (meta::namespace(it), meta::name(it)));
    for slice in sources {
        let Some(home) = (view.home)(meta::namespace(slice)).filter(|home| is_wanted(import, &home.cluster))
        else {
            continue;
        };
        let left_out = gathered.left_out.entry(home.cluster.clone()).or_default();
        let Some(content) = slice::read(slice, left_out) else {
            continue;
        };
        let offer = gathered.offers.entry(home.cluster.clone()).or_default();
        offer.extend(content.ports.iter().map(port_id));
        let mut marks = id.labels(labels::CREATED_BY_CONTROLLERS);
        marks.insert(SERVICE_NAME.to_owned(), json!(id.derived_name()));
        set_if_fits(&mut marks, labels::CLUSTER_ID, &home.id, LABEL_VALUE_LIMIT);
        set_if_fits(&mut marks, labels::CLUSTER_NAME, &home.cluster, LABEL_VALUE_LIMIT);
        let taken = |name: &str| is_taken(name) || gathered.wanted.contains_key(name);
        let name = copy_name(meta::namespace(slice), meta::name(slice), &taken);
        let copy = Wanted {
            labels: marks,
            owner: Some(owner(import)),
            content,
        };
        gathered.wanted.insert(name, copy);
    }
    gathered
}

/// Whether an import takes what a cluster exports.
fn is_wanted(import: &Value, cluster: &str) -> bool {
    let named = meta::annotation(import, annotations::EXPORTING_CLUSTERS);
    named.is_none_or(|names| names.split(',').any(|name| name.trim() == cluster))
}

/// Whether a slice is an agent's copy for a Service.
fn is_source(id: &ServiceId, slice: &Value) -> bool {
    id.is_of(slice, labels::CREATED_BY_AGENT) && meta::label(slice, SERVICE_NAME) == Some(&id.derived_name())
}

impl Gathered {
    /// Tells of addresses that do not count, and of ports that a cluster does not have.
    fn tell(&mut self, import: &Value, plan: &mut Plan) {
        for (cluster, left_out) in &self.left_out {
            if let Some(addresses) = slice::tell(left_out) {
                let note = format!("cluster \"{cluster}\" counts without {addresses}");
                plan.push(Action::warning(import, reasons::ADDRESSES_LEFT_OUT, note));
            }
        }
        let imported: Offer = ports(import).iter().map(port_id).collect();
        for (cluster, offer) in self.offers.iter().filter(|(_, offer)| !offer.is_empty()) {
            let missing: Vec<String> = imported.difference(offer).map(port_name).collect();
            if !missing.is_empty() {
                let note = format!(
                    "cluster \"{cluster}\" gets no traffic for {}: its Service has {}",
                    missing.join(", "),
                    offer.iter().map(port_name).collect::<Vec<_>>().join(", ")
                );
                plan.push(Action::warning(import, reasons::PORTS_NOT_OFFERED, note));
            }
        }
    }
}

/// Ports are the same by name and protocol; their numbers behind the Service may differ.
fn port_id(port: &Value) -> (String, String) {
    let text = |field: &str| port[field].as_str().unwrap_or_default().to_owned();
    (text("name"), text("protocol"))
}

fn port_name((name, protocol): &(String, String)) -> String {
    if name.is_empty() {
        format!("the unnamed port ({protocol})")
    } else {
        format!("\"{name}\" ({protocol})")
    }
}

/// The ports of an import, or of a Service.
fn ports(object: &Value) -> Vec<Value> {
    slice::items(&object["spec"], "ports").map(slice::port).collect()
}

/// Brings the Service's slices in the namespace to what is wanted.
fn keep(view: &View<'_>, wanted: &BTreeMap<String, Wanted>) -> Vec<Action> {
    let own = view.slices.iter().filter(|it| {
        meta::namespace(it) == view.namespace && view.id.is_of(it, labels::CREATED_BY_CONTROLLERS)
    });
    settle(view.namespace, wanted, &own.collect::<Vec<_>>())
}

/// So that what is derived also goes while no controllers run.
fn owner(import: &Value) -> Value {
    let imports = mcs::SERVICE_IMPORTS;
    json!([{
        "apiVersion": imports.api_version(), "kind": imports.kind,
        "name": meta::name(import), "uid": meta::uid(import),
    }])
}

fn create(view: &View<'_>, import: &Value) -> Action {
    let (affinity, affinity_config) = affinity(import);
    let mut object = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": view.id.derived_name(), "namespace": view.namespace,
            "labels": view.id.labels(labels::CREATED_BY_CONTROLLERS), "ownerReferences": owner(import),
        },
        "spec": {"type": "ClusterIP", "ports": ports(import), "sessionAffinity": affinity},
    });
    if !affinity_config.is_null() {
        object["spec"]["sessionAffinityConfig"] = affinity_config.clone();
    }
    Action::Create {
        resource: kubernetes::SERVICES,
        object,
    }
}

/// The session affinity that an import asks for, and its details: null without.
fn affinity(import: &Value) -> (&str, &Value) {
    match import["spec"]["sessionAffinity"].as_str() {
        Some("ClientIP") => ("ClientIP", &import["spec"]["sessionAffinityConfig"]),
        Some(_) | None => ("None", &Value::Null),
    }
}

/// The patch that makes the derived Service what the import says.
fn difference(view: &View<'_>, import: &Value, service: &Value) -> Option<Value> {
    let have = &service["spec"];
    let mut patch = json!({});
    let wanted = ports(import);
    if ports(service) != wanted {
        patch["spec"]["ports"] = json!(wanted);
    }
    let (affinity, affinity_config) = affinity(import);
    if have["sessionAffinity"].as_str().unwrap_or("None") != affinity {
        patch["spec"]["sessionAffinity"] = json!(affinity);
        patch["spec"]["sessionAffinityConfig"] = affinity_config.clone();
    } else if !affinity_config.is_null() && have["sessionAffinityConfig"] != *affinity_config {
        patch["spec"]["sessionAffinityConfig"] = affinity_config.clone();
    }
    if have["type"].as_str().unwrap_or("ClusterIP") != "ClusterIP" {
        patch["spec"]["type"] = json!("ClusterIP");
    }
    if have["selector"].as_object().is_some_and(|it| !it.is_empty()) {
        patch["spec"]["selector"] = Value::Null;
    }
    let marks = view.id.labels(labels::CREATED_BY_CONTROLLERS);
    described(service, &marks, Some(&owner(import)), patch)
}

/// Names the exporting clusters in the import's status, unless they are there.
fn report(import: &Value, clusters: &BTreeSet<String>) -> Option<Action> {
    let have = slice::items(&import["status"], "clusters").map(|it| &it["cluster"]);
    if have.eq(clusters.iter()) {
        return None;
    }
    let clusters: Vec<Value> = clusters.iter().map(|it| json!({"cluster": it})).collect();
    let mut patch = json!({"status": {"clusters": clusters}});
    if !meta::resource_version(import).is_empty() {
        patch["metadata"]["resourceVersion"] = json!(meta::resource_version(import));
    }
    Some(Action::Patch {
        resource: mcs::SERVICE_IMPORTS,
        target: Target::of(import),
        subresource: Some("status"),
        patch,
    })
}

/// Says, on the copies of a Service, that its clusters do not offer the same ports; their agents pass it on to the
/// exports. The cluster that exports longest is the one that the others are compared with.
pub fn compare(id: &ServiceId, slices: &[Arc<Value>], home: &dyn Fn(&str) -> Option<Home>) -> Plan {
    let mut offers: BTreeMap<String, (&str, Offer)> = BTreeMap::new();
    let mut own = Vec::new();
    for slice in slices
        .iter()
        .filter(|it| is_source(id, it) && !meta::is_deleting(it))
    {
        let Some(home) = home(meta::namespace(slice)) else {
            continue;
        };
        own.push(slice);
        let offer: Offer = slice::items(slice, "ports")
            .map(slice::port)
            .map(|port| port_id(&port))
            .collect();
        if !offer.is_empty() {
            let since = meta::creation_timestamp(slice);
            let (first, offers) = offers
                .entry(home.cluster)
                .or_insert_with(|| (since, Offer::new()));
            *first = since.min(*first);
            offers.extend(offer);
        }
    }
    let conflict = conflict(&offers);
    let mut plan = Plan::default();
    for slice in own {
        if meta::annotation(slice, super::CONFLICT) != conflict.as_deref() {
            let patch = json!({"metadata": {"annotations": {super::CONFLICT: conflict}}});
            plan.push(Action::patch(&kubernetes::ENDPOINT_SLICES, slice, patch));
        }
    }
    plan
}

/// How the clusters differ; they are named, as the API wants it.
fn conflict(offers: &BTreeMap<String, (&str, Offer)>) -> Option<String> {
    let (first, (_, norm)) = offers
        .iter()
        .min_by_key(|(cluster, (since, _))| (*since, *cluster))?;
    let (other, (_, offer)) = offers.iter().find(|(_, (_, offer))| offer != norm)?;
    let list = |offer: &Offer| offer.iter().map(port_name).collect::<Vec<_>>().join(", ");
    Some(format!(
        "cluster \"{first}\", which exports it longest, has {}, cluster \"{other}\" {}",
        list(norm),
        list(offer)
    ))
}

#[cfg(test)]
#[path = "import_tests.rs"]
mod tests;

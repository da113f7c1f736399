//! Base → Descriptions: everything one cluster gets of one Subscription, as the objects that it is to have.

use std::sync::Arc;

use api::{annotations, apps, entry, finalizers, payloads, reasons};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use machinery::meta::{self, OwnerReference};
use serde_json::{Value, json};

use crate::action::{Action, Next, Plan, add_finalizer, correction, remove_finalizers};
use crate::division::{self, Division};
use crate::feed::{self, Feed};
use crate::floor;
use crate::labels as names;
use crate::overrides::{self, OverrideError, Overrides};
use crate::pack::{self, Item, PackError, Packing};
use crate::version::Version;

/// The longest reason that is kept with a Base, in bytes.
const REASON_LIMIT: usize = 500;

/// What a Base's Descriptions are made of.
#[derive(Clone)]
pub enum Content<'a> {
    /// The templates as they are now: no Rollout has a say.
    Current,
    /// A version, as a Rollout says.
    Version(&'a Version),
    /// What they are made of now, for the time being; why, for people.
    Held(String),
}

/// What one plan may look at.
#[derive(Clone)]
pub struct View<'a> {
    /// The Base.
    pub base: &'a Value,
    /// What it is made of.
    pub content: Content<'a>,
    /// The template of a feed.
    pub template: &'a dyn Fn(&Feed) -> Option<Arc<Value>>,
    /// Every Description that carries the Base's uid, or has the name of one of its Descriptions: labels are the child's
    /// to write, and names nobody's to change.
    pub descriptions: &'a [Arc<Value>],
    /// What changes templates on their way.
    pub overrides: &'a Overrides<'a>,
    /// What large objects are kept with.
    pub packing: &'a Packing<'a>,
}

/// The two kinds of Descriptions.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Deployer {
    Helm,
    Generic,
}

impl Deployer {
    const ALL: [Self; 2] = [Self::Helm, Self::Generic];

    fn suffix(self) -> &'static str {
        match self {
            Self::Helm => "-helm",
            Self::Generic => "-generic",
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Helm => "Helm",
            Self::Generic => "Generic",
        }
    }

    fn name(self, base: &str) -> String {
        format!("{base}{}", self.suffix())
    }
}

/// The names that a Base's Descriptions have, whether they are there or not.
pub fn description_names(base: &str) -> impl Iterator<Item = String> {
    Deployer::ALL.into_iter().map(move |deployer| deployer.name(base))
}

/// The name of the Base that a Description of this name is made of.
pub fn name_of_base(description: &str) -> Option<&str> {
    Deployer::ALL
        .into_iter()
        .find_map(|deployer| description.strip_suffix(deployer.suffix()))
}

/// What to do about a Base.
pub fn plan(view: &View<'_>) -> Plan {
    let base = view.base;
    if meta::is_deleting(base) {
        return plan_deletion(view);
    }
    let mut plan = Plan::default();
    let mut patch = add_finalizer(base, finalizers::APP).unwrap_or_else(|| json!({"metadata": {}}));
    if meta::label(base, meta::uid(base)).is_none() {
        patch["metadata"]["labels"] = json!({meta::uid(base): apps::BASES.kind});
    }
    let kept = [annotations::VERSION, annotations::WAITING_SINCE];
    if matches!(view.content, Content::Current) && kept.iter().any(|it| meta::annotation(base, it).is_some())
    {
        patch["metadata"]["annotations"] = json!({kept[0]: null, kept[1]: null});
    }
    let mut rest = Plan::default();
    let blocked = fill(view, &mut rest).err().map(short);
    if meta::annotation(base, annotations::BLOCKED) != blocked.as_deref() {
        patch["metadata"]["annotations"][annotations::BLOCKED] = json!(blocked);
    }
    if patch != json!({"metadata": {}}) {
        plan.push(Action::patch(&apps::BASES, base, patch));
    }
    plan.actions.append(&mut rest.actions);
    plan.next = rest.next;
    plan
}

/// Makes a Base's Descriptions what they should be.
///
/// # Errors
/// Why they are not what is wanted now. That somebody holds them back is no error.
fn fill(view: &View<'_>, plan: &mut Plan) -> Result<(), String> {
    let base = view.base;
    let feeds = Feed::all_of(base);
    let found: Vec<(&Feed, Option<Arc<Value>>)> =
        feeds.iter().map(|feed| (feed, (view.template)(feed))).collect();
    if let Some(division) = view.overrides.division {
        division::plan_localizations(base, division, view.overrides.localizations, plan);
        if let Division::Unknown { reason, why } = division {
            plan.next = Next::Blocked(why.clone());
            let Some(reason) = reason else {
                return Ok(());
            };
            plan.push(Action::warning(base, reason, why.clone()));
            return Err(why.clone());
        }
    }
    let done = match &view.content {
        Content::Current => {
            templates(base, &found, plan).and_then(|templates| describe(view, &templates, plan))
        }
        Content::Version(version) => {
            let overrides = Overrides {
                globalizations: version.globalizations(),
                ..*view.overrides
            };
            let templates: Vec<(&Feed, &Value)> = version.templates().collect();
            let view = View {
                overrides: &overrides,
                ..view.clone()
            };
            describe(&view, &templates, plan)
        }
        Content::Held(why) => {
            plan.next = Next::Blocked(why.clone());
            Ok(())
        }
    };
    if let Err(why) = &done {
        plan.next = Next::Blocked(why.clone());
    }
    done
}

/// A reason that fits among annotations.
fn short(mut why: String) -> String {
    if why.len() > REASON_LIMIT {
        let end = (0..=REASON_LIMIT).rev().find(|end| why.is_char_boundary(*end));
        why.truncate(end.unwrap_or(0));
        why.push('…');
    }
    why
}

/// Descriptions go first, then the references, then the Base.
fn plan_deletion(view: &View<'_>) -> Plan {
    let mut plan = Plan::default();
    if !view.descriptions.is_empty() {
        for description in view.descriptions.iter().filter(|it| !meta::is_deleting(it)) {
            plan.push(Action::delete(&apps::DESCRIPTIONS, description));
        }
        plan.next = Next::Blocked(format!(
            "waiting for {} Description(s) to be deleted",
            view.descriptions.len()
        ));
        return plan;
    }
    if let Some(patch) = remove_finalizers(view.base, &[finalizers::APP]) {
        plan.push(Action::patch(&apps::BASES, view.base, patch));
    }
    plan
}

/// Every template that goes out, or why nothing of the Base is delivered: one missing feed holds back all of them.
fn templates<'a>(
    base: &Value,
    found: &'a [(&'a Feed, Option<Arc<Value>>)],
    plan: &mut Plan,
) -> Result<Vec<(&'a Feed, &'a Value)>, String> {
    let mut templates = Vec::new();
    let mut problems = Vec::new();
    for (feed, template) in found {
        if let Some(trouble) = feed::trouble(feed, template.as_deref()) {
            plan.push(Action::warning(base, &trouble.reason, trouble.note.clone()));
            problems.push(trouble.note);
        } else if let Some(template) = template.as_deref() {
            templates.push((*feed, template));
        }
    }
    if problems.is_empty() {
        Ok(templates)
    } else {
        Err(problems.join("; "))
    }
}

/// Makes a Base's Descriptions of its templates.
///
/// # Errors
/// Why they cannot be made of them.
fn describe(view: &View<'_>, templates: &[(&Feed, &Value)], plan: &mut Plan) -> Result<(), String> {
    let (wanted, pieces) = build(view, templates).map_err(|error| {
        let why = error.to_string();
        let reason = reasons::FAILED_APPLYING_OVERRIDES;
        plan.push(Action::warning(view.base, reason, why.clone()));
        why
    })?;
    // What a Description refers to is there before it.
    for object in pieces {
        let resource = payloads::PAYLOADS;
        plan.push(Action::Create { resource, object });
    }
    for object in &wanted {
        sync_description(view, object, plan);
    }
    for description in view.descriptions {
        let kept = wanted
            .iter()
            .any(|object| meta::name(object) == meta::name(description));
        if !kept && !meta::is_deleting(description) {
            plan.push(Action::delete(&apps::DESCRIPTIONS, description));
        }
    }
    Ok(())
}

fn sync_description(view: &View<'_>, object: &Value, plan: &mut Plan) {
    let name = format!("{}/{}", meta::namespace(object), meta::name(object));
    let Some(have) = view
        .descriptions
        .iter()
        .find(|have| meta::name(have) == meta::name(object))
    else {
        plan.push(Action::Create {
            resource: apps::DESCRIPTIONS,
            object: object.clone(),
        });
        let note = format!("Description {name} is created successfully");
        plan.push(Action::normal(view.base, reasons::DESCRIPTION_CREATED, note));
        return;
    };
    if meta::is_deleting(have) {
        plan.next = Next::Blocked(format!("waiting for Description {name} to be deleted"));
        return;
    }
    let mut patch = correction(have, object, &object["spec"]);
    let version = meta::annotation(object, annotations::VERSION);
    if meta::annotation(have, annotations::VERSION) != version {
        let patch = patch.get_or_insert_with(|| json!({"metadata": {}}));
        patch["metadata"]["annotations"] = json!({annotations::VERSION: version});
    }
    if let Some(patch) = patch {
        plan.push(Action::patch(&apps::DESCRIPTIONS, have, patch));
        let note = format!("Description {name} is updated successfully");
        plan.push(Action::normal(view.base, reasons::DESCRIPTION_UPDATED, note));
    }
}

/// Why Descriptions cannot be made.
#[derive(Debug, thiserror::Error)]
enum BuildError {
    #[error(transparent)]
    Override(#[from] OverrideError),
    #[error(transparent)]
    Pack(#[from] PackError),
    #[error("{0} cannot be distributed: it would be taken for what stands for another object")]
    Document(Feed),
}

/// The Descriptions as they should be, and the pieces of payloads that they need and that are not there.
fn build(view: &View<'_>, templates: &[(&Feed, &Value)]) -> Result<(Vec<Value>, Vec<Value>), BuildError> {
    let (mut charts, mut manifests) = (Vec::new(), Vec::new());
    for (feed, template) in templates {
        if feed.is_chart() {
            charts.push((*feed, *template));
        } else {
            manifests.push((*feed, *template));
        }
    }
    let (mut wanted, mut pieces) = (Vec::new(), Vec::new());
    if !charts.is_empty() {
        let (mut names, mut raw, mut chart_raw) = (Vec::new(), Vec::new(), Vec::new());
        for (feed, chart) in charts {
            names.push(json!({"namespace": feed.namespace, "name": feed.name}));
            let (values, chart) = overrides::chart(view.overrides, feed, chart)?;
            // A definition's bytes are at least one (format `byte`): no values are a blank, as upstream writes them.
            let values = if values.is_empty() { " " } else { values.as_str() };
            raw.push(json!(BASE64.encode(values)));
            chart_raw.push(encode(&chart));
        }
        let spec = json!({"charts": names, "raw": raw, "chartRaw": chart_raw});
        wanted.push(description(view, Deployer::Helm, spec));
    }
    if !manifests.is_empty() {
        let mut items = Vec::new();
        for (feed, manifest) in manifests {
            let object = overrides::manifest(view.overrides, feed, manifest)?;
            let becomes = Feed::of_object(&object);
            if entry::is_document(&becomes) {
                return Err(BuildError::Document(becomes));
            }
            let division = view.overrides.division;
            let is_read = floor::tells_readiness(feed) || division.is_some_and(|it| it.share(feed).is_some());
            items.push(Item { object, is_read });
        }
        let name = Deployer::Generic.name(meta::name(view.base));
        let have = view.descriptions.iter().find(|it| meta::name(it) == name);
        let clusters = view.overrides.clusters;
        let packed = pack::pack(
            items,
            clusters.first().map(|it| &**it),
            have.map(|it| &**it),
            view.packing,
        )?;
        pieces = packed.pieces;
        let spec = json!({"raw": packed.raw});
        wanted.push(description(view, Deployer::Generic, spec));
    }
    Ok((wanted, pieces))
}

fn encode(object: &Value) -> Value {
    json!(BASE64.encode(object.to_string()))
}

fn description(view: &View<'_>, deployer: Deployer, mut spec: Value) -> Value {
    let base = view.base;
    spec["deployer"] = json!(deployer.as_str());
    let mut owner = OwnerReference::controller_of(base);
    owner.api_version = apps::BASES.api_version();
    owner.kind = apps::BASES.kind.to_string();
    let mut object = json!({
        "apiVersion": apps::DESCRIPTIONS.api_version(), "kind": apps::DESCRIPTIONS.kind,
        "metadata": {
            "namespace": meta::namespace(base), "name": deployer.name(meta::name(base)),
            "labels": names::descent(&apps::BASES, base), "finalizers": [finalizers::APP],
            "ownerReferences": [owner.to_value()],
        },
        "spec": spec,
    });
    if let Content::Version(version) = view.content {
        meta::set_annotation(&mut object, annotations::VERSION, version.name());
    }
    object
}

#[cfg(test)]
#[path = "base_tests.rs"]
mod tests;

//! `plan`: what an edit would change in the clusters, before anybody makes it.
//!
//! The hub completes what the files say as it would for `apply`, by way of dry runs; what follows of it is decided here
//! by the scheduler's and the controllers' own functions, over what the hub has now. Nothing is written.

mod compare;
mod fields;
mod foresee;
mod report;

use std::io::Write;
use std::sync::Arc;

use api::apps::{
    BASES, DESCRIPTIONS, FEED_INVENTORIES, GLOBALIZATIONS, HELM_CHARTS, LOCALIZATIONS, MANIFESTS,
    SUBSCRIPTIONS,
};
use api::clusters::MANAGED_CLUSTERS;
use api::{finalizers, labels, names};
use distribution::protection::{self, InUse};
use distribution::replicas::OwnKind;
use distribution::{Feed, FeedIndex, Next};
use kubeio::{DeleteOptions, DryRun, ListOptions};
use machinery::{ApiResource, meta};
use placement::Config;
use serde_json::{Map, Value, json};

use self::foresee::{Live, Rules, World, foresee};
use self::report::{Names, Report};
use crate::apply::{Wanted, wanted};
use crate::error::Failures;
use crate::output::print_objects;
use crate::resolve::SHADOW;
use crate::{Error, Format, Hub, Source};

/// What is to become of the objects that files name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intent {
    /// They are made as the files say.
    Apply,
    /// They are deleted.
    Delete,
}

/// How the scheduler and the controllers of the hub are configured.
#[derive(Debug, Clone, Default)]
pub struct PlanOptions {
    /// The scheduler's configuration.
    pub placement: Config,
    /// Users' own kinds that can be divided; those that are divided already are known.
    pub own_kinds: Vec<OwnKind>,
    /// When the scheduler decides; without it whatever is not ready counts as lost.
    pub now: Option<jiff::Timestamp>,
}

/// Prints what an edit would change: for each Subscription that it touches which clusters, how many replicas, and which
/// fields of which objects.
///
/// # Errors
/// [`Error::Differs`] if anything would change; [`Error`] if it cannot be told, or if the hub would refuse the edit.
pub async fn plan(
    hub: &Hub,
    sources: &[Source],
    intent: Intent,
    options: &PlanOptions,
    format: &Format,
    out: &mut (dyn Write + Send),
) -> Result<(), Error> {
    let (mut failures, mut edits) = (Failures::default(), Vec::new());
    for wanted in last_of_each(wanted(hub, sources).await?) {
        let edit = async { Edit::new(hub, &wanted?, intent).await };
        failures.take(edit.await.map(|edit| edits.extend(edit)))?;
    }
    failures.end()?;
    let report = if edits.is_empty() {
        Report {
            outlooks: Vec::new(),
            notes: Vec::new(),
            names: Names::default(),
        }
    } else {
        Edits(edits).report(hub, options).await?
    };
    if matches!(format, Format::Table | Format::Wide) {
        report.print(out)?;
    } else {
        print_objects(out, format, vec![report.document()], true)?;
    }
    if report.differs() {
        Err(Error::Differs)
    } else {
        Ok(())
    }
}

/// Of an object that the files name more than once the last counts, as it is what `apply` leaves.
fn last_of_each(all: Vec<Result<Wanted, Error>>) -> Vec<Result<Wanted, Error>> {
    let mut kept: Vec<Result<Wanted, Error>> = Vec::new();
    for wanted in all {
        if let Ok(new) = &wanted {
            let same = |old: &Wanted| {
                (&old.resource, &old.namespace) == (&new.resource, &new.namespace)
                    && meta::name(&old.object) == meta::name(&new.object)
            };
            kept.retain(|old| !old.as_ref().is_ok_and(same));
        }
        kept.push(wanted);
    }
    kept
}

/// An object before and after, as the hub has it and would have it.
#[derive(Debug)]
struct Edit {
    title: String,
    resource: ApiResource,
    before: Option<Value>,
    after: Option<Value>,
}

impl Edit {
    /// `None` if the object would stay as it is.
    async fn new(hub: &Hub, wanted: &Wanted, intent: Intent) -> Result<Option<Self>, Error> {
        let known = [
            SUBSCRIPTIONS,
            GLOBALIZATIONS,
            LOCALIZATIONS,
            HELM_CHARTS,
            MANIFESTS,
        ];
        let Wanted { resource, object, .. } = wanted;
        if resource.group != SHADOW && !known.contains(resource) {
            return Err(Error::Usage(format!(
                "{}: what a {} changes is not foreseen: plan takes Subscriptions, Globalizations, Localizations, \
                 HelmCharts and templates",
                wanted.title(),
                meta::kind(object)
            )));
        }
        let before = wanted.live(hub).await?;
        let after = match intent {
            Intent::Apply => match Self::applied(hub, wanted, before.as_ref()).await? {
                None => return Ok(None),
                after => after,
            },
            Intent::Delete => Self::deleted(hub, wanted, before.as_ref()).await?,
        };
        Ok(Some(Self {
            title: wanted.title(),
            resource: resource.clone(),
            before,
            after,
        }))
    }

    /// What `apply` would make of an object; `None` if nothing else than it is.
    async fn applied(hub: &Hub, wanted: &Wanted, live: Option<&Value>) -> Result<Option<Value>, Error> {
        let failed = Error::hub(format!("{} cannot be applied", wanted.title()));
        let (resource, namespace) = (&wanted.resource, wanted.namespace.as_deref());
        let Some(live) = live else {
            let tried = hub
                .client
                .try_create(resource, namespace, &wanted.annotated())
                .await;
            return tried.map(Some).map_err(failed);
        };
        let (kind, patch) = wanted.patch(live)?;
        if patch.as_object().is_none_or(Map::is_empty) {
            return Ok(None);
        }
        let name = meta::name(&wanted.object);
        let tried = hub
            .client
            .try_patch(resource, namespace, name, kind, &patch)
            .await;
        tried.map(Some).map_err(failed)
    }

    /// What a deletion leaves: an object that somebody holds is one that is being deleted.
    async fn deleted(hub: &Hub, wanted: &Wanted, live: Option<&Value>) -> Result<Option<Value>, Error> {
        let options = DeleteOptions {
            dry_run: DryRun::All,
            ..DeleteOptions::background()
        };
        let name = meta::name(&wanted.object);
        let tried = hub
            .client
            .delete(&wanted.resource, wanted.namespace.as_deref(), name, &options);
        let failed = Error::hub(format!("{} cannot be deleted", wanted.title()));
        tried.await.map_err(failed)?;
        // Of a template it is the Manifest that may be held.
        let can_stay = wanted.resource.group != SHADOW;
        let held = live.filter(|live| can_stay && meta::finalizers(live).next().is_some());
        Ok(held.map(going))
    }

    fn states(&self) -> impl Iterator<Item = &Value> {
        self.before.iter().chain(&self.after)
    }

    fn is_of_policy(&self) -> bool {
        self.resource == GLOBALIZATIONS || self.resource == LOCALIZATIONS
    }

    fn is_of_template(&self) -> bool {
        self.resource != SUBSCRIPTIONS && !self.is_of_policy()
    }

    /// The feeds whose objects it changes.
    fn feeds(&self) -> Vec<Feed> {
        let of = |object: &Value| {
            if self.is_of_policy() {
                return Some(Feed::from_value(&object["spec"]["feed"]));
            }
            if self.resource == SUBSCRIPTIONS {
                return None;
            }
            if self.resource == MANIFESTS {
                return Feed::of_template(object);
            }
            Some(Feed::of_object(object))
        };
        self.states().filter_map(of).collect()
    }
}

/// The objects of a resource.
async fn listed(
    hub: &Hub,
    resource: &ApiResource,
    namespace: Option<&str>,
    selector: &str,
) -> Result<Vec<Arc<Value>>, Error> {
    let listed = hub
        .client
        .list_all(resource, namespace, &ListOptions::labels(selector))
        .await
        .map_err(Error::hub(format!("the {} cannot be listed", resource.plural)))?;
    Ok(listed.items.into_iter().map(Arc::new).collect())
}

struct Edits(Vec<Edit>);

impl Edits {
    async fn report(&self, hub: &Hub, options: &PlanOptions) -> Result<Report, Error> {
        let mut notes = Vec::new();
        let subscriptions = self.subscriptions(hub, &mut notes).await?;
        let (mut outlooks, mut names) = (Vec::new(), Names::default());
        if !subscriptions.is_empty() {
            let world = self.world(hub).await?;
            names = Names::new(world.clusters.iter().map(|cluster| meta::name(cluster)));
            let rules = Rules {
                placement: &options.placement,
                own_kinds: &options.own_kinds,
                now: options.now,
            };
            for subscription in &self.let_go(subscriptions, &world, &mut notes) {
                let live = live(hub, subscription).await?;
                outlooks.push(foresee(subscription, &live, &world, &rules)?);
            }
        }
        Ok(Report {
            outlooks,
            notes,
            names,
        })
    }

    /// The Subscriptions that the edit touches, as they would be, with their status as it is.
    async fn subscriptions(&self, hub: &Hub, notes: &mut Vec<String>) -> Result<Vec<Value>, Error> {
        let mut touched: Vec<Value> = Vec::new();
        for edit in self.0.iter().filter(|edit| edit.resource == SUBSCRIPTIONS) {
            let mut after = match (&edit.after, &edit.before) {
                (Some(after), _) => after.clone(),
                // It goes at once, and its Bases with it.
                (None, Some(before)) => going(before),
                (None, None) => continue,
            };
            after["status"] = edit
                .before
                .as_ref()
                .map_or_else(|| json!({}), |it| it["status"].clone());
            touched.push(after);
        }
        let templates = self.0.iter().filter(|edit| edit.resource != SUBSCRIPTIONS);
        let changes: Vec<(&Edit, Vec<Feed>)> = templates.map(|edit| (edit, edit.feeds())).collect();
        if changes.is_empty() {
            return Ok(touched);
        }
        let same =
            |a: &Value, b: &Value| meta::namespace(a) == meta::namespace(b) && meta::name(a) == meta::name(b);
        for subscription in listed(hub, &SUBSCRIPTIONS, None, "").await? {
            if touched.iter().any(|it| same(it, &subscription)) {
                continue;
            }
            let feeds = Feed::all_of(&subscription);
            let uses = |(_, changed): &(&Edit, Vec<Feed>)| uses(&feeds, changed);
            if !meta::is_deleting(&subscription) && changes.iter().any(uses) {
                touched.push(Value::clone(&subscription));
            }
        }
        for (edit, changed) in &changes {
            if !touched.iter().any(|it| uses(&Feed::all_of(it), changed)) {
                notes.push(format!("No Subscription uses {}.", edit.title));
            }
        }
        let waits = |edit: &&Edit| {
            let mut states = edit.states();
            edit.is_of_policy() && states.all(|it| it["spec"]["overridePolicy"] != "ApplyNow")
        };
        let waiting: Vec<&str> = self.0.iter().filter(waits).map(|it| &*it.title).collect();
        if !waiting.is_empty() {
            notes.push(format!(
                "Not ApplyNow, so in force with the next other change of their templates or Subscriptions: {}.",
                waiting.join(", ")
            ));
        }
        Ok(touched)
    }

    /// What the hub has, with the edits made.
    async fn world(&self, hub: &Hub) -> Result<World, Error> {
        let mut world = World {
            clusters: listed(hub, &MANAGED_CLUSTERS, None, "").await?,
            globalizations: self.made(&GLOBALIZATIONS, listed(hub, &GLOBALIZATIONS, None, "").await?),
            ..World::default()
        };
        for localization in self.made(&LOCALIZATIONS, listed(hub, &LOCALIZATIONS, None, "").await?) {
            let home = world
                .localizations
                .entry(meta::namespace(&localization).to_owned());
            home.or_default().push(localization);
        }
        for resource in [HELM_CHARTS, MANIFESTS] {
            for template in self.made(&resource, listed(hub, &resource, None, "").await?) {
                world.templates.insert(&template);
            }
        }
        for edit in self.0.iter().filter(|edit| edit.resource.group == SHADOW) {
            make_template(edit, &mut world.templates);
        }
        Ok(world)
    }

    /// What becomes of the users of templates that are deleted: they keep them, or they lose them.
    fn let_go(&self, users: Vec<Value>, world: &World, notes: &mut Vec<String>) -> Vec<Arc<Value>> {
        let mut users: Vec<Arc<Value>> = users.into_iter().map(Arc::new).collect();
        for edit in self.0.iter().filter(|edit| edit.is_of_template()) {
            let feeds = edit.feeds();
            let template = feeds.iter().find_map(|feed| world.templates.get(feed));
            let Some(template) = template.filter(|template| meta::is_deleting(template)) else {
                continue;
            };
            let plan = protection::plan(&protection::View {
                template,
                subscriptions: &users,
                bases: &[],
                in_use: if meta::has_finalizer(template, finalizers::FEED_PROTECTION) {
                    InUse::Protect
                } else {
                    InUse::Drop
                },
            });
            if matches!(plan.next, Next::Blocked(_)) {
                notes.push(format!(
                    "{} stays in force until no Subscription uses it.",
                    edit.title
                ));
            }
            users = foresee::carried_out(users, &SUBSCRIPTIONS, plan.actions);
        }
        users
    }

    /// The objects of one resource with the edits made.
    fn made(&self, resource: &ApiResource, mut objects: Vec<Arc<Value>>) -> Vec<Arc<Value>> {
        for edit in self.0.iter().filter(|edit| edit.resource == *resource) {
            let is_it = |object: &Value| {
                edit.states().any(|it| {
                    meta::namespace(it) == meta::namespace(object) && meta::name(it) == meta::name(object)
                })
            };
            objects.retain(|object| !is_it(object));
            objects.extend(edit.after.clone().map(Arc::new));
        }
        objects
    }
}

fn uses(feeds: &[Feed], changed: &[Feed]) -> bool {
    feeds
        .iter()
        .any(|feed| changed.iter().any(|other| other.is_same(feed)))
}

/// An object that is being deleted, if it was not before.
fn going(object: &Value) -> Value {
    let mut going = object.clone();
    if !meta::is_deleting(&going) {
        // When does not matter.
        going["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:00:00Z");
    }
    going
}

/// Puts the Manifest that a template would become in the place of the one that it is.
fn make_template(edit: &Edit, templates: &mut FeedIndex) {
    let feeds = edit.states().map(Feed::of_object);
    let old = feeds.filter_map(|feed| templates.get(&feed).cloned()).next();
    if let Some(old) = &old {
        templates.remove(old);
    }
    let new = match (&edit.after, &old) {
        (Some(after), old) => {
            let gvk = meta::gvk(after);
            let resource = ApiResource {
                group: gvk.group.into(),
                version: gvk.version.into(),
                ..edit.resource.clone()
            };
            hub::shadow::to_manifest(
                &resource,
                names::RESERVED_NAMESPACE,
                after.clone(),
                old.as_deref(),
            )
        }
        (None, Some(old)) if meta::finalizers(old).next().is_some() => going(old),
        (None, _) => return,
    };
    templates.insert(&Arc::new(new));
}

/// What the hub has of a Subscription.
async fn live(hub: &Hub, subscription: &Value) -> Result<Live, Error> {
    let (namespace, name, uid) = (
        meta::namespace(subscription),
        meta::name(subscription),
        meta::uid(subscription),
    );
    let inventory = hub
        .client
        .get_opt(&FEED_INVENTORIES, Some(namespace), name)
        .await
        .map_err(Error::hub("its FeedInventory cannot be read"))?;
    if uid.is_empty() {
        return Ok(Live {
            inventory,
            ..Live::default()
        });
    }
    let selector = format!("{}={uid}", labels::SUBSCRIPTION_UID);
    Ok(Live {
        inventory,
        bases: listed(hub, &BASES, None, &selector).await?,
        descriptions: listed(hub, &DESCRIPTIONS, None, &selector).await?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config_map(value: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "shop", "name": "web",
            "resourceVersion": "7", "uid": "of-the-manifest"}, "data": {"a": value}})
    }

    fn edit(before: Option<Value>, after: Option<Value>) -> Edit {
        Edit {
            title: "configmap/web".into(),
            resource: ApiResource::namespaced(SHADOW, "v1alpha1", "configmaps", "ConfigMap"),
            before,
            after,
        }
    }

    #[test]
    fn the_last_of_several_that_are_one_object_counts() {
        let wanted = |name: &str, value: u32| {
            Ok(Wanted {
                resource: LOCALIZATIONS,
                namespace: Some("ns".into()),
                object: json!({"metadata": {"name": name}, "value": value}),
            })
        };
        let bad = || Err(Error::Missing("bad".into()));
        let kept = last_of_each(vec![wanted("a", 1), bad(), wanted("b", 2), wanted("a", 3)]);
        let found: Vec<Option<u64>> = kept
            .iter()
            .map(|it| it.as_ref().ok()?.object["value"].as_u64())
            .collect();
        assert_eq!(found, [None, Some(2), Some(3)]);
    }

    fn feed() -> Feed {
        Feed::of_object(&config_map(""))
    }

    fn subscription() -> Value {
        json!({"kind": "Subscription", "metadata": {"namespace": "default", "name": "app"},
            "spec": {"feeds": [feed().to_value()]}})
    }

    #[test]
    fn a_template_becomes_a_manifest_as_the_hub_makes_it() {
        let mut templates = FeedIndex::default();
        make_template(&edit(None, Some(config_map("1"))), &mut templates);
        let made = templates.get(&feed()).cloned().expect("it is made");
        assert_eq!(made["template"]["data"], json!({"a": "1"}));
        assert_eq!(made["template"]["metadata"]["resourceVersion"], json!(null));
        let change = edit(Some(config_map("1")), Some(config_map("2")));
        make_template(&change, &mut templates);
        let changed = templates.get(&feed()).cloned().expect("it is there");
        assert_eq!(changed["template"]["data"], json!({"a": "2"}));
        assert_eq!(changed["metadata"], made["metadata"]);
        make_template(&edit(Some(config_map("2")), None), &mut templates);
        assert_eq!(templates.get(&feed()), None);
    }

    #[test]
    fn a_template_that_is_deleted_stays_in_force_or_leaves_its_users() {
        for (finalizer, feeds, said) in [
            (
                finalizers::FEED_PROTECTION,
                1,
                "configmap/web stays in force until no Subscription uses it.",
            ),
            (finalizers::APP, 0, ""),
        ] {
            let mut world = World::default();
            make_template(&edit(None, Some(config_map("1"))), &mut world.templates);
            let mut manifest = world
                .templates
                .get(&feed())
                .map(|it| Value::clone(it))
                .expect("it is made");
            world.templates.remove(&manifest);
            manifest["metadata"]["finalizers"] = json!([finalizer]);
            world.templates.insert(&Arc::new(manifest));
            let edits = Edits(vec![edit(Some(config_map("1")), None)]);
            make_template(&edits.0[0], &mut world.templates);
            let mut notes = Vec::new();
            let users = edits.let_go(vec![subscription()], &world, &mut notes);
            assert_eq!(Feed::all_of(&users[0]).len(), feeds, "{finalizer}");
            assert_eq!(notes.join(" "), said);
        }
    }
}

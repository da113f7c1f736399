//! Which objects a change makes worth a look.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::entry::{self, Digest};
use api::{annotations, apps, clusters, labels, payloads};
use distribution::Feed;
use distribution::feed::obsolete;
use kubeio::{Change, ObjectKey};
use machinery::meta;
use serde_json::Value;

use super::indexes::{feed_tie, subscription_tie};
use super::{Deployer, Job, Sources};
use crate::index::Tie;

/// What clusters report is gathered before their Subscription is looked at, for so long for each of them: all of them are
/// looked at each time. With five that is a millisecond, with 5,000 a second.
const GATHER: Duration = Duration::from_micros(200);

/// Where a Subscription says what its clusters report.
const TOLD: [&str; 3] = [
    "/status/aggregatedStatuses",
    "/status/completedReleases",
    "/status/conditions",
];

/// Where an object says that it is deleted.
const DELETION: &str = "/metadata/deletionTimestamp";

impl Deployer {
    /// Reads changes for ever.
    pub(super) async fn route(&self, mut sources: Sources) {
        loop {
            tokio::select! {
                biased;
                change = sources.subscriptions.next() => self.subscription(&change),
                change = sources.bases.next() => self.base(&change),
                change = sources.descriptions.next() => self.description(&change),
                change = sources.manifests.next() => self.template(&change, Job::Manifest),
                change = sources.charts.next() => self.template(&change, Job::Chart),
                change = sources.releases.next() => self.release(&change),
                change = sources.globalizations.next() => self.policy(&change),
                change = sources.localizations.next() => self.policy(&change),
                change = sources.inventories.next() => self.inventory(&change),
                change = sources.clusters.next() => self.cluster(&change),
                change = sources.namespaces.next() => self.namespace(&change),
                change = sources.payloads.next() => self.payload(&change),
                change = sources.rollouts.next() => self.rollout(&change),
                change = sources.revisions.next() => self.revision(&change),
            }
        }
    }

    fn subscription(&self, change: &Change) {
        match (&change.old, &change.new) {
            // One that is placed already when it is seen first may be in the middle of being edited.
            (None, Some(new)) if new["status"]["bindingClusters"].is_array() => self.settle.edited(new),
            (Some(old), Some(new)) if old["spec"] != new["spec"] => self.settle.edited(new),
            (Some(old), None) => {
                self.settle.forget(old);
                self.waits.take(meta::uid(old));
            }
            (Some(_) | None, Some(_)) | (None, None) => {}
        }
        self.change_sets(change);
        let seen = ["/spec", DELETION, "/metadata/finalizers"];
        let is_said = |it: &Value| meta::annotation(it, annotations::SETTLE).map(str::to_owned);
        if changed(change, &seen) || changed(change, &BINDING) || differs(change, is_said) {
            self.queue.add(Job::Subscription(change.key.clone()));
            self.queue.add(Job::Status(change.key.clone()));
            self.queue.add(Job::Inventory(change.key.clone()));
            self.wake_rollouts([change.key.clone()]);
        } else if changed(change, &TOLD) {
            // What was written and never answered may be older than what was last planned on top of it.
            self.gather(change.object(), Job::Status);
        }
        if changed(change, &["/spec/schedulingStrategy"]) || changed(change, &BINDING) {
            self.wake_bases(change.object());
        }
        if differs(change, |it| {
            meta::annotation(it, annotations::MIN_AVAILABLE).map(str::to_owned)
        }) {
            self.queue.add(Job::Subscription(change.key.clone()));
            self.wake_bases(change.object());
        }
        // A template that waits for the last of its users to go.
        let feeds = |state: &Option<Arc<Value>>| state.as_deref().map(Feed::all_of).unwrap_or_default();
        let (old, new) = (feeds(&change.old), feeds(&change.new));
        let leaves = change.new.as_deref().is_none_or(meta::is_deleting);
        let kept = if leaves { &[] } else { &*new };
        let dropped: Vec<Feed> = obsolete(&old, kept).into_iter().cloned().collect();
        let mut indexes = self.indexes();
        for (_, template) in indexes.templates_of(&dropped) {
            if let Some(template) = template.filter(|it| meta::is_deleting(it)) {
                self.queue.add(template_job(&template));
            }
        }
    }

    fn base(&self, change: &Change) {
        let of = |it: &Value| {
            let mut metadata = it["metadata"].clone();
            if let Some(metadata) = metadata.as_object_mut() {
                metadata.remove("resourceVersion");
            }
            (metadata, it["spec"].clone())
        };
        if differs(change, of) {
            self.queue.add(Job::Base(change.key.clone()));
            self.wake_subscription(change.object(), Job::Subscription);
            self.wake_rollouts_of(change.object());
        }
        if differs(change, |it| {
            meta::annotation(it, annotations::BLOCKED).map(str::to_owned)
        }) {
            self.wake_subscription(change.object(), Job::Status);
        }
        if differs(change, |it| it["spec"]["feeds"].clone()) {
            self.wake_templates(change);
        }
    }

    /// Looks at the templates that a Base uses, or did, when some of the Bases of its Subscription have come together.
    fn wake_templates(&self, change: &Change) {
        let states = [&change.old, &change.new].into_iter().flatten();
        let feeds: Vec<Feed> = states.flat_map(|it| Feed::all_of(it)).collect();
        let owner = label(change.object(), labels::SUBSCRIPTION_UID);
        let mut indexes = self.indexes();
        let subscription = indexes.subscriptions.find(&owner).pop();
        let delay = subscription.map_or(Duration::ZERO, |it| gathering(&it));
        for template in indexes.templates_of(&feeds).into_iter().filter_map(|(_, it)| it) {
            self.queue.add_after(template_job(&template), delay);
        }
    }

    fn description(&self, change: &Change) {
        let has_work = |it: &Value| meta::is_deleting(it) || it["spec"]["deployer"] == "Helm";
        let asks = changed(change, &["/metadata", "/spec"]);
        if asks && change.new.as_deref().is_some_and(has_work) {
            self.queue.add(Job::Description(change.key.clone()));
        }
        if changed(change, &["/spec"]) {
            let of = |state: &Option<Arc<Value>>| -> BTreeSet<Digest> {
                state.iter().flat_map(|it| entry::digests(it)).collect()
            };
            for dropped in of(&change.old).difference(&of(&change.new)) {
                self.queue.add(Job::Payload(dropped.clone()));
            }
        }
        let kept = [
            DELETION,
            "/metadata/labels",
            "/metadata/ownerReferences",
            "/metadata/finalizers",
        ];
        let version = |it: &Value| meta::annotation(it, annotations::VERSION).map(str::to_owned);
        let is_touched = changed(change, &kept) || differs(change, version);
        if is_touched || changed(change, &["/spec"]) {
            let owner = label(change.object(), labels::CONFIG_UID);
            for key in self.indexes().bases.keys(&[owner]) {
                self.queue.add(Job::Base(key));
            }
            // Its labels and owners are the child's to take off.
            if let Some(base) = distribution::base::name_of_base(&change.key.name) {
                self.queue
                    .add(Job::Base(ObjectKey::new(&*change.key.namespace, base)));
            }
        }
        if changed(change, &["/spec", "/status", DELETION, "/metadata/labels"]) {
            self.wake_subscription(change.object(), Job::Status);
        }
        // What a cluster has or says may be what another waits for.
        if changed(change, &["/spec/raw", "/status/manifestStatuses", DELETION]) {
            self.wake_waiting(meta::label(change.object(), labels::SUBSCRIPTION_UID));
        }
        if is_touched || changed(change, &["/status"]) {
            self.wake_rollouts_of(change.object());
        }
    }

    fn template(&self, change: &Change, job: fn(ObjectKey) -> Job) {
        self.queue.add(job(change.key.clone()));
        self.change_sets(change);
        // The labels that say who uses a template make no difference to those who do.
        let of = |it: &Value| {
            let status = (it["status"].clone(), is_deleting(it));
            (
                it["template"].clone(),
                it["spec"].clone(),
                status,
                Feed::of_template(it),
            )
        };
        if differs(change, of) {
            let states = [&change.old, &change.new].into_iter().flatten();
            let feeds: Vec<Tie> = states
                .filter_map(|it| Feed::of_template(it))
                .map(|feed| feed_tie(&feed))
                .collect();
            self.edited(&feeds);
            let mut indexes = self.indexes();
            for key in indexes.bases.keys(&feeds) {
                self.queue.add(Job::Base(key));
            }
            // A Subscription tells which of its templates are not there.
            let comes_or_goes = differs(change, |it| (is_deleting(it), it["status"]["phase"].clone()));
            for key in indexes.subscriptions.keys(&feeds) {
                if comes_or_goes {
                    self.queue.add(Job::Subscription(key.clone()));
                    self.queue.add(Job::Status(key.clone()));
                }
                if indexes.rollouts.has(&subscription_tie(&key.namespace, &key.name)) {
                    self.queue.add(Job::Rollout(key.clone()));
                }
                self.queue.add(Job::Inventory(key));
            }
            if differs(change, |it| meta::uid(it).to_owned()) {
                for key in indexes.localizations.keys(&feeds) {
                    self.queue.add(Job::Policy(key));
                }
                for key in indexes.globalizations.keys(&feeds) {
                    self.queue.add(Job::Policy(key));
                }
            }
        }
    }

    fn inventory(&self, change: &Change) {
        self.queue.add(Job::Inventory(change.key.clone()));
        if !differs(change, |it| it["spec"].clone()) {
            return;
        }
        let Some(subscription) = self.shared.cache(&apps::SUBSCRIPTIONS).get_key(&change.key) else {
            return;
        };
        if change.old.is_some() {
            self.settle.edited(&subscription);
        }
        self.wake_bases(&subscription);
    }

    fn release(&self, change: &Change) {
        let asks = differs(change, |it| (it["metadata"].clone(), it["spec"].clone()));
        if asks && let Some(owner) = meta::controller(change.object()) {
            let key = ObjectKey::new(&*change.key.namespace, owner.name);
            self.queue.add(Job::Description(key));
        }
    }

    /// `ApplyNow` syncs whoever uses the feed; `ApplyLater`, the default, waits for another reason.
    fn policy(&self, change: &Change) {
        if change.new.is_some() {
            self.queue.add(Job::Policy(change.key.clone()));
        }
        self.change_sets(change);
        let made_here = distribution::division::is_made_here(change.object());
        if made_here && let Some(owner) = meta::controller(change.object()) {
            self.queue
                .add(Job::Base(ObjectKey::new(&*change.key.namespace, owner.name)));
        }
        if made_here || !differs(change, |it| (it["spec"].clone(), is_deleting(it))) {
            return;
        }
        // Under a Rollout a Globalization is part of what goes in waves, whatever its policy.
        if change.key.namespace.is_empty() {
            let states = [&change.old, &change.new].into_iter().flatten();
            let feeds: Vec<Tie> = states
                .map(|it| feed_tie(&Feed::from_value(&it["spec"]["feed"])))
                .collect();
            let users = self.indexes().subscriptions.keys(&feeds);
            self.wake_rollouts(users);
        }
        let states = [&change.old, &change.new].into_iter().flatten();
        let now = states.filter(|it| it["spec"]["overridePolicy"] == "ApplyNow");
        let feeds: Vec<Tie> = now
            .map(|it| feed_tie(&Feed::from_value(&it["spec"]["feed"])))
            .collect();
        self.edited(&feeds);
        for key in self.indexes().bases.keys(&feeds) {
            if change.key.namespace.is_empty() || change.key.namespace == key.namespace {
                self.queue.add(Job::Base(key));
            }
        }
    }

    fn cluster(&self, change: &Change) {
        // Globalizations choose clusters by their labels, and agents say what they understand.
        let received = |it: &Value| {
            let (labels, status) = (it["metadata"]["labels"].clone(), &it["status"]);
            let understood = [&status["features"], &status["encryptionKey"]].map(Value::clone);
            let has_reported = !status["lastObservedTime"].is_null();
            (
                labels,
                understood,
                has_reported,
                distribution::sync::deployer_of(it),
            )
        };
        if change.old.is_some() && differs(change, received) {
            for base in self
                .shared
                .cache(&apps::BASES)
                .list_namespace(&change.key.namespace)
            {
                self.queue.add(Job::Base(ObjectKey::of(&base)));
            }
        }
        // Whoever is not ready holds no floor, and whoever is fenced runs nothing any more.
        if differs(change, |it| (readiness(it), clusters::is_fenced(it))) {
            let bases = self.shared.cache(&apps::BASES);
            let owners = bases.list_namespace(&change.key.namespace);
            self.wake_waiting(
                owners
                    .iter()
                    .filter_map(|it| meta::label(it, labels::SUBSCRIPTION_UID)),
            );
        }
        if differs(change, |it| {
            (readiness(it), is_deleting(it), it["metadata"]["labels"].clone())
        }) {
            let home = Tie::Namespace(change.key.namespace.clone());
            let bound = self.indexes().subscriptions.keys(&[home]);
            self.wake_rollouts(bound);
        }
        if !differs(change, |it| (readiness(it), is_deleting(it))) {
            return;
        }
        // Whoever leaves keeps nothing that is held for others.
        if change.new.as_deref().is_some_and(meta::is_deleting) {
            let bases = self.shared.cache(&apps::BASES);
            for base in bases.list_namespace(&change.key.namespace) {
                self.wake_subscription(&base, Job::Subscription);
            }
        }
        for description in self
            .shared
            .cache(&apps::DESCRIPTIONS)
            .list_namespace(&change.key.namespace)
        {
            if meta::is_deleting(&description) {
                self.queue.add(Job::Description(ObjectKey::of(&description)));
            }
        }
        let home = Tie::Namespace(change.key.namespace.clone());
        for subscription in self.indexes().subscriptions.find(&home) {
            self.gather(&subscription, Job::Status);
        }
    }

    fn payload(&self, change: &Change) {
        let Some(digest) = payloads::digest_of_name(&change.key.name) else {
            return;
        };
        if change.new.is_none() {
            let users = self.indexes().descriptions.keys(&[Tie::Payload(digest.clone())]);
            for user in users {
                if let Some(base) = distribution::base::name_of_base(&user.name) {
                    self.queue.add(Job::Base(ObjectKey::new(&*user.namespace, base)));
                }
            }
        }
        self.queue.add(Job::Payload(digest));
    }

    fn namespace(&self, change: &Change) {
        if differs(change, |it| (is_deleting(it), it["metadata"]["labels"].clone())) {
            for key in self
                .indexes()
                .subscriptions
                .keys(&[Tie::Namespace(change.key.name.clone())])
            {
                self.queue.add(Job::Subscription(key));
            }
        }
    }

    /// Wakes every Base of a Subscription.
    fn wake_bases(&self, subscription: &Value) {
        let uid = Tie::Uid(meta::uid(subscription).to_owned());
        for key in self.indexes().bases.keys(&[uid]) {
            self.queue.add(Job::Base(key));
        }
    }

    fn rollout(&self, change: &Change) {
        let asked = |it: &Value| {
            let asked =
                [annotations::RETRY, annotations::UNDO].map(|key| it["metadata"]["annotations"][key].clone());
            (it["spec"].clone(), is_deleting(it), asked, it["status"].clone())
        };
        if !differs(change, asked) {
            return;
        }
        let states = [&change.old, &change.new].into_iter().flatten();
        let name = |it: &Value| it["spec"]["subscription"].as_str().unwrap_or_default().to_owned();
        let names: BTreeSet<String> = states.map(|it| name(it)).collect();
        let comes_or_goes = differs(change, |it| (name(it), is_deleting(it)));
        for name in names {
            let key = ObjectKey::new(&*change.key.namespace, name);
            self.queue.add(Job::Rollout(key.clone()));
            // Whether a Rollout has a say is for the Bases to see.
            let subscription = self.shared.cache(&apps::SUBSCRIPTIONS).get_key(&key);
            if let Some(subscription) = subscription.filter(|_| comes_or_goes) {
                let uid = Tie::Uid(meta::uid(&subscription).to_owned());
                for key in self.indexes().bases.keys(&[uid]) {
                    self.queue.add(Job::Base(key));
                }
            }
        }
    }

    /// Pieces of versions never change: they come, which whoever waits for them should know, and go.
    fn revision(&self, change: &Change) {
        let of =
            meta::annotation(change.object(), annotations::REVISION_OF).and_then(|it| it.split_once('/'));
        let (Some((namespace, name)), false) = (of, change.old.is_some() && change.new.is_some()) else {
            return;
        };
        self.queue.add(Job::Rollout(ObjectKey::new(namespace, name)));
    }

    /// Looks at the Rollouts of those of these Subscriptions that have any, or have something kept for them.
    fn wake_rollouts(&self, subscriptions: impl IntoIterator<Item = ObjectKey>) {
        let mut indexes = self.indexes();
        for key in subscriptions {
            if indexes.rolls_out(&key) {
                self.queue.add(Job::Rollout(key));
            }
        }
    }

    fn wake_rollouts_of(&self, object: &Value) {
        let owner = label(object, labels::SUBSCRIPTION_UID);
        let mut indexes = self.indexes();
        for subscription in indexes.subscriptions.find(&owner) {
            if indexes.rolls_out(&ObjectKey::of(&subscription)) {
                self.gather(&subscription, Job::Rollout);
            }
        }
    }

    fn wake_subscription(&self, object: &Value, job: fn(ObjectKey) -> Job) {
        let owner = label(object, labels::SUBSCRIPTION_UID);
        for subscription in self.indexes().subscriptions.find(&owner) {
            self.gather(&subscription, job);
        }
    }

    /// Lets the looks come again that wait for what the clusters of some Subscriptions have and say.
    fn wake_waiting<'a>(&self, subscriptions: impl IntoIterator<Item = &'a str>) {
        for uid in subscriptions {
            let looks = self.waits.take(uid);
            let owner = Tie::Uid(uid.to_owned());
            for subscription in self.indexes().subscriptions.find(&owner) {
                for look in &looks {
                    self.queue.add_after(look.clone(), gathering(&subscription));
                }
            }
        }
    }

    /// Looks at a Subscription when some of what its clusters report has come together.
    fn gather(&self, subscription: &Value, job: fn(ObjectKey) -> Job) {
        self.queue
            .add_after(job(ObjectKey::of(subscription)), gathering(subscription));
    }
}

/// For how long what the clusters of a Subscription report is gathered.
fn gathering(subscription: &Value) -> Duration {
    let bound = subscription["status"]["bindingClusters"]
        .as_array()
        .map_or(0, Vec::len);
    GATHER.saturating_mul(u32::try_from(bound).unwrap_or(u32::MAX))
}

fn label(object: &Value, key: &str) -> Tie {
    Tie::Uid(meta::label(object, key).unwrap_or_default().to_owned())
}

fn template_job(template: &Value) -> Job {
    let key = ObjectKey::of(template);
    if meta::kind(template) == distribution::feed::HELM_CHART {
        Job::Chart(key)
    } else {
        Job::Manifest(key)
    }
}

/// Whether any of these fields, as JSON pointers, is not what it was.
fn changed(change: &Change, fields: &[&str]) -> bool {
    match (&change.old, &change.new) {
        (Some(old), Some(new)) => fields
            .iter()
            .any(|field| old.pointer(field) != new.pointer(field)),
        (None, _) | (_, None) => true,
    }
}

/// Whether what `view` sees of an object is not what it saw before.
fn differs<T: PartialEq>(change: &Change, view: impl Fn(&Value) -> T) -> bool {
    match (&change.old, &change.new) {
        (Some(old), Some(new)) => view(old) != view(new),
        (None, _) | (_, None) => true,
    }
}

fn is_deleting(object: &Value) -> bool {
    meta::is_deleting(object)
}

/// What the scheduler says in a Subscription.
const BINDING: [&str; 3] = ["/status/bindingClusters", "/status/replicas", "/status/specHash"];

fn readiness(cluster: &Value) -> Value {
    let conditions = cluster["status"]["conditions"].as_array().into_iter().flatten();
    let ready = conditions
        .into_iter()
        .find(|it| it["type"] == api::reasons::READY);
    ready.map(|it| it["status"].clone()).unwrap_or_default()
}

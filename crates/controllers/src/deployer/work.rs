//! Looking at one object: take a snapshot, plan, carry out.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use api::entry::Digest;
use api::{apps, clusters, kubernetes, labels, payloads, reasons};
use distribution::division::Division;
use distribution::moves::Situation;
use distribution::overrides::Overrides;
use distribution::pack::Packing;
use distribution::{
    EventKind, Feed, Next, base, description, division, floor, inventory, payload, policy, protection,
    release, stateful, status, subscription,
};
use jiff::Timestamp;
use kubeio::{ObjectKey, Outcome};
use machinery::{ApiResource, meta};
use serde_json::Value;

use super::settle::Found;
use super::{Deployer, Job};
use crate::index::Tie;

impl Deployer {
    /// Looks at one object.
    pub(super) async fn work(&self, job: Job) -> Outcome {
        match job {
            Job::Subscription(key) => self.sync_subscription(&key).await,
            Job::Base(key) => self.sync_base(&key).await,
            Job::Description(key) => self.sync_description(&key).await,
            Job::Status(key) => self.sync_status(&key).await,
            Job::Inventory(key) => self.sync_inventory(&key).await,
            Job::Manifest(key) => self.protect(&apps::MANIFESTS, &key).await,
            Job::Payload(digest) => self.sync_payload(&digest).await,
            Job::Chart(key) => self.protect(&apps::HELM_CHARTS, &key).await,
            Job::Policy(key) => self.sync_policy(&key).await,
            Job::Rollout(key) => self.sync_rollout(&key).await,
        }
    }

    async fn sync_subscription(&self, key: &ObjectKey) -> Outcome {
        let Some(object) = self.shared.cache(&apps::SUBSCRIPTIONS).get_key(key) else {
            return Outcome::Done;
        };
        let namespaces = self.shared.cache(&kubernetes::NAMESPACES);
        let uid = meta::uid(&object);
        let look = Job::Subscription(key.clone());
        if floor::Floor::of(&object).is_some() {
            self.waits.begin(uid, &look);
        }
        let (bases, templates) = {
            let mut indexes = self.indexes();
            (
                indexes.bases.find(&Tie::Uid(uid.to_owned())),
                indexes.templates_of(&Feed::all_of(&object)),
            )
        };
        let standing = self.standing(&object);
        let stays = Cell::new(false);
        let plan = subscription::plan(&subscription::View {
            subscription: &object,
            standing: &standing,
            namespace: &|name| namespaces.get(None, name),
            bases: &bases,
            template: &|feed| lookup(&templates, feed),
            stays: &|base| {
                let why = self.stays(&object, base);
                stays.set(stays.get() || why.is_some());
                why
            },
            is_taken: &|namespace, name| {
                let there = self.shared.cache(&apps::BASES).get(Some(namespace), name);
                there.is_some_and(|base| meta::label(&base, labels::CONFIG_UID) != Some(uid))
            },
        });
        if !stays.get() {
            self.waits.end(uid, &look);
        }
        self.finish(&object, reasons::FAILED_SYNCED, plan).await
    }

    /// The Descriptions of a Base: by its uid, which a child may have taken off, or put on in another namespace, and by
    /// their names.
    fn descriptions_of(&self, base: &Value) -> Vec<Arc<Value>> {
        let home = meta::namespace(base);
        let tallies = self
            .indexes()
            .descriptions
            .find(&Tie::Uid(meta::uid(base).to_owned()));
        let found = tallies.iter().map(|it| it.description());
        let mut found: Vec<Arc<Value>> = found.filter(|it| meta::namespace(it) == home).cloned().collect();
        let all = self.shared.cache(&apps::DESCRIPTIONS);
        for name in base::description_names(meta::name(base)) {
            let is_known = found.iter().any(|it| meta::name(it) == name);
            found.extend(all.get(Some(home), &name).filter(|_| !is_known));
        }
        found
    }

    fn clusters_of(&self, home: &str) -> Vec<Arc<Value>> {
        self.shared
            .cache(&clusters::MANAGED_CLUSTERS)
            .list_namespace(home)
    }

    /// The FeedInventory of a Subscription.
    fn inventory_of(&self, subscription: &Value) -> Option<Arc<Value>> {
        let key = ObjectKey::of(subscription);
        self.shared.cache(&apps::FEED_INVENTORIES).get_key(&key)
    }

    /// Why the Base of a cluster that is not bound any more is to stay. A cluster that leaves is not kept.
    fn stays(&self, subscription: &Value, base: &Value) -> Option<String> {
        let home = meta::namespace(base);
        let namespace = self.shared.cache(&kubernetes::NAMESPACES).get(None, home);
        let is_there = self.clusters_of(home).iter().any(|it| !meta::is_deleting(it))
            && namespace.is_some_and(|it| !meta::is_deleting(&it));
        if !is_there {
            return None;
        }
        let inventory = self.inventory_of(subscription);
        let held = floor::stays(&Situation {
            subscription,
            inventory: inventory.as_deref(),
            namespace: home,
            own: &self.descriptions_of(base),
            all: &|| self.indexes().tallies(subscription),
            clusters: &|home| self.clusters_of(home),
        });
        held.first().map(ToString::to_string)
    }

    async fn sync_base(&self, key: &ObjectKey) -> Outcome {
        let Some(object) = self.shared.cache(&apps::BASES).get_key(key) else {
            return Outcome::Done;
        };
        let owner = meta::label(&object, labels::SUBSCRIPTION_UID);
        let descriptions = self.descriptions_of(&object);
        let (templates, subscription) = {
            let mut indexes = self.indexes();
            (
                indexes.templates_of(&Feed::all_of(&object)),
                owner.and_then(|uid| indexes.subscriptions.find(&Tie::Uid(uid.to_owned())).pop()),
            )
        };
        let inventory = subscription.as_deref().and_then(|it| self.inventory_of(it));
        if let Some(subscription) = subscription.as_deref().filter(|_| !meta::is_deleting(&object))
            && let Some(outcome) = self.holds(&Found {
                subscription,
                inventory: inventory.as_deref(),
                template: &|feed| lookup(&templates, feed),
            })
        {
            return outcome;
        }
        // A Base that nobody subscribed to, such as a hand-made one, is whole.
        let division = match owner {
            Some(_) => division::of(subscription.as_deref(), inventory.as_deref(), &key.namespace),
            None => Division::Whole,
        };
        let division = match subscription.as_deref() {
            Some(subscription) => {
                let situation = Situation {
                    subscription,
                    inventory: inventory.as_deref(),
                    namespace: &key.namespace,
                    own: &descriptions,
                    all: &|| self.indexes().tallies(subscription),
                    clusters: &|home| self.clusters_of(home),
                };
                self.restrain(&situation, Job::Base(key.clone()), division)
            }
            None => division,
        };
        let globalizations = self.shared.cache(&apps::GLOBALIZATIONS).list();
        let localizations = self
            .shared
            .cache(&apps::LOCALIZATIONS)
            .list_namespace(&key.namespace);
        let clusters = self.clusters_of(&key.namespace);
        let payloads = self.shared.cache(&payloads::PAYLOADS);
        let is_stored = |name: &str| payloads.get(Some(payloads::NAMESPACE), name).is_some();
        let told = self.told(&object, subscription.as_deref());
        let plan = base::plan(&base::View {
            base: &object,
            content: told.content(),
            template: &|feed| lookup(&templates, feed),
            descriptions: &descriptions,
            overrides: &Overrides {
                globalizations: &globalizations,
                localizations: &localizations,
                clusters: &clusters,
                division: Some(&division),
            },
            packing: &Packing {
                stored: payloads.is_ready().then_some(&is_stored),
                seal: Some(&*self.sealer),
            },
        });
        self.finish(&object, reasons::FAILED_SYNCING_DESCRIPTION, plan)
            .await
    }

    /// What a cluster gets now of its division, while others do not run yet, or still run, what moves.
    fn restrain(&self, situation: &Situation<'_>, look: Job, division: Division) -> Division {
        if !matches!(division, Division::Shares(_)) {
            return division;
        }
        let subscription = situation.subscription;
        self.waits.begin(meta::uid(subscription), &look);
        let (division, delayed) = stateful::delay(situation, division);
        let (division, held) = floor::hold(situation, division);
        if delayed.is_empty() && held.is_empty() {
            self.waits.end(meta::uid(subscription), &look);
        }
        let delayed = delayed.iter().map(ToString::to_string);
        for note in delayed.chain(held.iter().map(ToString::to_string)) {
            self.shared
                .tell(subscription, EventKind::Normal, reasons::MOVE_HELD, &note);
        }
        division
    }

    async fn sync_description(&self, key: &ObjectKey) -> Outcome {
        let Some(object) = self.shared.cache(&apps::DESCRIPTIONS).get_key(key) else {
            return Outcome::Done;
        };
        let uid = Tie::Uid(meta::uid(&object).to_owned());
        let mut releases = self.indexes().releases.find(&uid);
        // Others only claim to be its own.
        releases.retain(|it| meta::namespace(it) == key.namespace);
        let clusters = self.clusters_of(&key.namespace);
        let view = description::View {
            description: &object,
            clusters: &clusters,
            releases: &releases,
            unready_for: clusters
                .first()
                .map_or(Duration::ZERO, |it| unready_for(it, self.shared.env.now())),
        };
        if meta::is_deleting(&object) {
            let plan = description::plan(&view);
            return self
                .finish(&object, reasons::FAILED_DELETING_DESCRIPTION, plan)
                .await;
        }
        let plan = release::plan(&release::View {
            description: &object,
            releases: &releases,
            named: &|name| {
                let all = self.shared.cache(&apps::HELM_RELEASES);
                all.get(Some(&*key.namespace), name)
            },
        });
        self.finish(&object, reasons::HELM_RELEASE_FAILURE, plan).await
    }

    async fn sync_payload(&self, digest: &Digest) -> Outcome {
        let tie = Tie::Payload(digest.clone());
        let (pieces, is_used) = {
            let mut indexes = self.indexes();
            (indexes.payloads.find(&tie), indexes.descriptions.has(&tie))
        };
        let Some(first) = pieces.first().cloned() else {
            return Outcome::Done;
        };
        let plan = payload::plan(&payload::View {
            pieces: &pieces,
            is_used,
            now: self.shared.env.now(),
        });
        self.finish(&first, reasons::FAILED_SYNCED, plan).await
    }

    async fn sync_status(&self, key: &ObjectKey) -> Outcome {
        let Some(object) = self.shared.cache(&apps::SUBSCRIPTIONS).get_key(key) else {
            return Outcome::Done;
        };
        let (tallies, templates) = {
            let mut indexes = self.indexes();
            let templates = indexes.templates_of(&Feed::all_of(&object));
            (indexes.tallies(&object), templates)
        };
        let descriptions: Vec<_> = tallies.iter().map(|it| Arc::clone(it.description())).collect();
        let bases = self
            .indexes()
            .bases
            .find(&Tie::Uid(meta::uid(&object).to_owned()));
        let plan = status::plan(&status::View {
            subscription: &object,
            descriptions: &descriptions,
            bases: &bases,
            cluster: &|namespace, name| {
                self.shared
                    .cache(&clusters::MANAGED_CLUSTERS)
                    .get(Some(namespace), name)
            },
            template: &|feed| lookup(&templates, feed),
            now: self.shared.env.now(),
        });
        self.finish(&object, reasons::FAILED_AGGREGATE_STATUS, plan).await
    }

    async fn sync_inventory(&self, key: &ObjectKey) -> Outcome {
        let Some(object) = self.shared.cache(&apps::SUBSCRIPTIONS).get_key(key) else {
            return Outcome::Done;
        };
        // What is wanted of the scheduler waits with the rest.
        if !self.feed_inventory || self.standing(&object).is_frozen() {
            return Outcome::Done;
        }
        let templates = self.indexes().templates_of(&Feed::all_of(&object));
        let have = self.shared.cache(&apps::FEED_INVENTORIES).get_key(key);
        let plan = inventory::plan(&inventory::View {
            subscription: &object,
            inventory: have.as_deref(),
            template: &|feed| lookup(&templates, feed),
            own_kinds: &self.own_kinds,
        });
        self.finish(&object, reasons::FEED_INVENTORY_NOT_SYNCED, plan)
            .await
    }

    async fn protect(&self, resource: &ApiResource, key: &ObjectKey) -> Outcome {
        let Some(object) = self.shared.cache(resource).get_key(key) else {
            return Outcome::Done;
        };
        let (subscriptions, bases) = match Feed::of_template(&object) {
            Some(feed) => {
                let tie = super::indexes::feed_tie(&feed);
                let mut indexes = self.indexes();
                (indexes.subscriptions.find(&tie), indexes.bases.find(&tie))
            }
            None => Default::default(),
        };
        let plan = protection::plan(&protection::View {
            template: &object,
            subscriptions: &subscriptions,
            bases: &bases,
            in_use: self.in_use,
        });
        self.finish(&object, reasons::FAILED_SYNCED, plan).await
    }

    async fn sync_policy(&self, key: &ObjectKey) -> Outcome {
        let resource = if key.namespace.is_empty() {
            &apps::GLOBALIZATIONS
        } else {
            &apps::LOCALIZATIONS
        };
        let Some(object) = self.shared.cache(resource).get_key(key) else {
            return Outcome::Done;
        };
        let feed = Feed::from_value(&object["spec"]["feed"]);
        let template = self.indexes().templates().get(&feed).cloned();
        let plan = policy::plan(&policy::View {
            policy: &object,
            template: template.as_deref(),
        });
        self.finish(&object, reasons::FAILED_SYNCED, plan).await
    }

    pub(super) async fn finish(&self, object: &Value, reason: &str, plan: distribution::Plan) -> Outcome {
        let next = plan.next.clone();
        if let Err((error, trouble)) = self.shared.carry_out_about(object, plan).await {
            return self.shared.failed(object, trouble.unwrap_or(reason), &error);
        }
        match next {
            Next::Done => Outcome::Done,
            Next::Again(delay) => Outcome::After(delay),
            Next::Blocked(why) => {
                tracing::debug!(
                    kind = %meta::kind(object), namespace = %meta::namespace(object), name = %meta::name(object), why,
                    "blocked"
                );
                Outcome::Done
            }
        }
    }
}

/// The template of one of the feeds that were looked up.
pub(super) fn lookup(templates: &[(Feed, Option<Arc<Value>>)], feed: &Feed) -> Option<Arc<Value>> {
    let (_, template) = templates.iter().find(|(it, _)| it == feed)?;
    template.clone()
}

/// For how long a cluster has been saying that it is not ready.
fn unready_for(cluster: &Value, now: Timestamp) -> Duration {
    let conditions = cluster["status"]["conditions"].as_array().into_iter().flatten();
    let ready = conditions
        .into_iter()
        .find(|it| it["type"] == reasons::READY && it["status"] == "False");
    let since = ready.and_then(|it| it["lastTransitionTime"].as_str()?.parse::<Timestamp>().ok());
    let age = since.and_then(|since| Duration::try_from(now.duration_since(since)).ok());
    age.unwrap_or(Duration::ZERO)
}

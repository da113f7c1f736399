//! Whole rollouts on the toy server: the plans of the Rollout and of the Bases, agents that obey, and time.

use std::collections::BTreeMap;
use std::time::Duration;

use api::{apps, clusters, labels, rollouts};
use serde_json::json;

use super::*;
use crate::action::Plan;
use crate::base;
use crate::division::Division;
use crate::feed::FeedIndex;
use crate::overrides::Overrides;
use crate::pack::Packing;
use crate::version::Version;
use crate::world::World;

mod properties;

const HOME: &str = "reserved";

/// A fleet whose clusters are called by letters. What it distributes is one Deployment with an image.
struct Fleet {
    world: World,
    now: Timestamp,
}

fn image_of(object: &Value) -> String {
    object["spec"]["image"].as_str().unwrap_or_default().to_owned()
}

/// What a plan writes, a line each.
fn writes_of(plan: &Plan) -> String {
    let lines = plan.actions.iter().filter_map(|action| match action {
        Action::Create { object, .. } => Some(format!("create {}", meta::name(object))),
        Action::Patch { target, patch, .. } => Some(format!("patch {} {patch}", target.name)),
        Action::Delete { target, .. } => Some(format!("delete {}", target.name)),
        Action::Event { .. } => None,
    });
    lines.collect::<Vec<_>>().join("\n")
}

impl Fleet {
    /// With so many clusters, a Rollout of this spec, and the image `1`.
    fn new(names: &str, spec: &Value) -> Self {
        let mut fleet = Self {
            world: World::default(),
            now: "2026-03-01T00:00:00.7Z".parse().unwrap(),
        };
        for name in names.chars() {
            fleet.join(name);
        }
        fleet.set_rollout("ro", spec);
        fleet.set_image("1");
        fleet.bind(names);
        fleet
    }

    fn set_rollout(&mut self, name: &str, spec: &Value) {
        let mut rollout = match self.world.get(&rollouts::ROLLOUTS, "default", name) {
            Some(have) => Value::clone(have),
            None => json!({"metadata": {"namespace": "default", "name": name}}),
        };
        rollout["spec"] = spec.clone();
        rollout["spec"]["subscription"] = json!("app");
        self.world.put(&rollouts::ROLLOUTS, rollout);
    }

    fn join(&mut self, name: char) {
        self.world.put(
            &clusters::MANAGED_CLUSTERS,
            json!({
                "metadata": {"namespace": format!("ns-{name}"), "name": name.to_string(),
                    "labels": {"stage": if name == 'c' { "canary" } else { "usual" }}},
                "status": {"conditions": [{"type": "Ready", "status": "True"}]},
            }),
        );
    }

    fn set_ready(&mut self, name: char, ready: bool) {
        let key = (format!("ns-{name}"), name.to_string());
        let have = self
            .world
            .get(&clusters::MANAGED_CLUSTERS, &key.0, &key.1)
            .unwrap();
        let mut cluster = Value::clone(have);
        cluster["status"]["conditions"][0]["status"] = json!(if ready { "True" } else { "Unknown" });
        self.world.put(&clusters::MANAGED_CLUSTERS, cluster);
    }

    fn set_image(&mut self, image: &str) {
        let feed = json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"});
        self.world.put(
            &apps::MANIFESTS,
            json!({
                "metadata": {"namespace": HOME, "name": "web", "uid": "m", "labels": {
                    labels::CONFIG_GROUP: "apps", labels::CONFIG_VERSION: "v1", labels::CONFIG_KIND: "Deployment",
                    labels::CONFIG_NAMESPACE: "shop", labels::CONFIG_NAME: "web"}},
                "template": {"apiVersion": "apps/v1", "kind": "Deployment",
                    "metadata": {"namespace": "shop", "name": "web"}, "spec": {"image": image}},
            }),
        );
        let mut subscription = self.subscription();
        subscription["spec"]["feeds"] = json!([feed]);
        self.world.put(&apps::SUBSCRIPTIONS, subscription);
    }

    fn subscription(&self) -> Value {
        match self.world.get(&apps::SUBSCRIPTIONS, "default", "app") {
            Some(have) => Value::clone(have),
            None => json!({"metadata": {"namespace": "default", "name": "app", "uid": "u"}}),
        }
    }

    /// Binds the Subscription to these clusters, with a Base in each.
    fn bind(&mut self, names: &str) {
        let mut subscription = self.subscription();
        let bound: Vec<String> = names.chars().map(|name| format!("ns-{name}/{name}")).collect();
        subscription["status"]["bindingClusters"] = json!(bound);
        self.world.put(&apps::SUBSCRIPTIONS, subscription);
        for base in self.world.list(&apps::BASES) {
            let home = meta::namespace(&base);
            if !bound.iter().any(|it| it.starts_with(&format!("{home}/"))) {
                self.world.delete(&apps::BASES, home, "app-x");
                for description in self.world.list(&apps::DESCRIPTIONS) {
                    if meta::namespace(&description) == home {
                        self.world
                            .delete(&apps::DESCRIPTIONS, home, meta::name(&description));
                        let name = meta::name(&description);
                        self.world
                            .release(&apps::DESCRIPTIONS, home, name, api::finalizers::APP);
                    }
                }
                self.world
                    .release(&apps::BASES, home, "app-x", api::finalizers::APP);
            }
        }
        for name in names.chars() {
            let home = format!("ns-{name}");
            if self.world.get(&apps::BASES, &home, "app-x").is_none() {
                let feeds = self.subscription()["spec"]["feeds"].clone();
                self.world.put(
                    &apps::BASES,
                    json!({"metadata": {"namespace": home, "name": "app-x", "finalizers": [api::finalizers::APP],
                        "labels": {labels::SUBSCRIPTION_UID: "u"}}, "spec": {"feeds": feeds}}),
                );
            }
        }
    }

    fn secret(&self, name: &str) -> Option<Arc<Value>> {
        self.world.get(&kubernetes::SECRETS, HOME, name).cloned()
    }

    fn templates(&self) -> FeedIndex {
        let mut index = FeedIndex::default();
        self.world
            .list(&apps::MANIFESTS)
            .iter()
            .for_each(|it| index.insert(it));
        index
    }

    fn plan(&self) -> Plan {
        let subscription = self.world.get(&apps::SUBSCRIPTIONS, "default", "app");
        let templates = self.templates();
        plan(&View {
            subscription: subscription.map(|it| &**it),
            rollouts: &self.world.list(&rollouts::ROLLOUTS),
            bases: &self.world.list(&apps::BASES),
            descriptions: &self.world.list(&apps::DESCRIPTIONS),
            cluster: &|namespace, name| {
                self.world
                    .get(&clusters::MANAGED_CLUSTERS, namespace, name)
                    .cloned()
            },
            template: &|feed| templates.get(feed).cloned(),
            globalizations: &self.world.list(&apps::GLOBALIZATIONS),
            revisions: &self.world.list(&kubernetes::SECRETS),
            reserved_namespace: HOME,
            now: self.now,
        })
    }

    /// Carries out what the Rollout asks for; that is all then.
    fn roll(&mut self) {
        let plan = self.plan();
        self.world.apply(&plan);
        let again = self.plan();
        assert!(!again.writes(), "{}", writes_of(&again));
    }

    /// Every Base's plan.
    fn describe(&mut self) {
        for base in self.world.list(&apps::BASES) {
            let templates = self.templates();
            let rollouts = self.world.list(&rollouts::ROLLOUTS);
            let subscription = self.subscription();
            let version;
            let content = match told(&base, Some(&rollouts)) {
                Told::Current => base::Content::Current,
                Told::Wait(why) => base::Content::Held(why),
                Told::Version(name) => match Version::load(&name, &subscription, &|it| self.secret(it)) {
                    Ok(read) => {
                        version = read;
                        base::Content::Version(&version)
                    }
                    Err(error) => panic!(
                        "{} is told a version that is gone: {error}",
                        meta::namespace(&base)
                    ),
                },
            };
            let mut descriptions = self.world.list(&apps::DESCRIPTIONS);
            descriptions.retain(|it| meta::namespace(it) == meta::namespace(&base));
            let plan = base::plan(&base::View {
                base: &base,
                content,
                template: &|feed| templates.get(feed).cloned(),
                descriptions: &descriptions,
                overrides: &Overrides {
                    globalizations: &self.world.list(&apps::GLOBALIZATIONS),
                    division: Some(&Division::Whole),
                    ..Overrides::default()
                },
                packing: &Packing::default(),
            });
            self.world.apply(&plan);
        }
    }

    /// What a Description delivers.
    fn delivered(description: &Value) -> Option<Value> {
        serde_json::from_slice(&api::secret::decode(&description["spec"]["raw"][0])?).ok()
    }

    /// Agents of clusters that are ready report; images that start with `bad` do not come up where they are bad.
    fn report(&mut self) {
        for description in self.world.list(&apps::DESCRIPTIONS) {
            let home = meta::namespace(&description).to_owned();
            let name = home.trim_start_matches("ns-");
            let cluster = self.world.get(&clusters::MANAGED_CLUSTERS, &home, name).unwrap();
            if cluster["status"]["conditions"][0]["status"] != "True" {
                continue;
            }
            let image = Self::delivered(&description)
                .map(|it| image_of(&it))
                .unwrap_or_default();
            let is_bad = image
                .strip_prefix("bad")
                .is_some_and(|on| on.is_empty() || on.contains(name));
            let up = i64::from(!is_bad);
            let status = json!({
                "phase": "Success", "observedGeneration": meta::generation(&description),
                "manifestStatuses": [{
                    "apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web",
                    "observedStatus": {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1,
                        "availableReplicas": up, "unavailableReplicas": 1 - up},
                }],
            });
            if description["status"] != status {
                let mut description = Value::clone(&description);
                description["status"] = status;
                self.world.put(&apps::DESCRIPTIONS, description);
            }
        }
    }

    /// One round of everybody.
    fn turn(&mut self) {
        self.roll();
        self.describe();
        self.report();
    }

    /// Rounds until nothing changes any more.
    fn settle(&mut self) {
        for _ in 0..100 {
            let before = self.shown();
            self.turn();
            if self.shown() == before && !self.plan().writes() {
                return;
            }
        }
        panic!("it never settles: {}", self.shown());
    }

    fn pass_time(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }

    fn rollout(&self) -> Arc<Value> {
        Arc::clone(self.world.get(&rollouts::ROLLOUTS, "default", "ro").unwrap())
    }

    /// Phase, wave, number of updated, and what each cluster is delivered.
    fn shown(&self) -> String {
        let mut words = match self.world.get(&rollouts::ROLLOUTS, "default", "ro") {
            Some(rollout) => ["phase", "wave", "updated"]
                .map(|field| rollout["status"][field].as_str().unwrap_or("-").to_owned())
                .to_vec(),
            None => vec!["gone".to_owned()],
        };
        let mut images: BTreeMap<String, String> = BTreeMap::new();
        for base in self.world.list(&apps::BASES) {
            images.insert(meta::namespace(&base).to_owned(), "-".to_owned());
        }
        for description in self.world.list(&apps::DESCRIPTIONS) {
            let delivered = Self::delivered(&description).map(|it| image_of(&it));
            images.insert(
                meta::namespace(&description).to_owned(),
                delivered.unwrap_or_default(),
            );
        }
        words.extend(
            images
                .into_iter()
                .map(|(home, image)| format!("{}={image}", &home[3..])),
        );
        words.join(" ")
    }

    #[track_caller]
    fn check(&mut self, expected: &str) {
        self.settle();
        assert_eq!(self.shown(), expected);
    }

    fn annotate(&mut self, key: &str) {
        let mut rollout = Value::clone(&self.rollout());
        let target = rollout["status"]["targetVersion"].as_str().unwrap().to_owned();
        meta::set_annotation(&mut rollout, key, &target);
        self.world.put(&rollouts::ROLLOUTS, rollout);
    }

    fn condition(&self, kind: &str) -> String {
        let rollout = self.rollout();
        let conditions = rollout["status"]["conditions"].as_array().unwrap().clone();
        let found = conditions.iter().find(|it| it["type"] == kind).unwrap();
        let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
        format!("{} {}: {}", text("status"), text("reason"), text("message"))
    }
}

/// The canary, then one, then the rest; a minute each.
fn careful() -> Value {
    json!({
        "waves": [
            {"name": "canary", "clusterSelector": {"matchLabels": {"stage": "canary"}}},
            {"name": "first", "count": 1},
        ],
        "successTime": "1m", "progressDeadline": "5m",
    })
}

#[test]
fn the_first_version_goes_wave_by_wave() {
    let mut fleet = Fleet::new("abcd", &careful());
    fleet.check("Progressing 1/3 1/4 a=- b=- c=1 d=-");
    fleet.pass_time(59);
    fleet.check("Progressing 1/3 1/4 a=- b=- c=1 d=-");
    fleet.pass_time(1);
    fleet.check("Progressing 2/3 2/4 a=1 b=- c=1 d=-");
    fleet.pass_time(60);
    fleet.check("Progressing 3/3 4/4 a=1 b=1 c=1 d=1");
    fleet.pass_time(60);
    fleet.check("Complete 3/3 4/4 a=1 b=1 c=1 d=1");
    assert!(fleet.condition("Healthy").starts_with("True"));
    assert_eq!(
        fleet
            .world
            .events
            .iter()
            .filter(|it| it.starts_with("Wave") || it.starts_with("Roll"))
            .collect::<Vec<_>>(),
        [
            "RolloutStarted",
            "WaveStarted",
            "WaveCompleted",
            "WaveStarted",
            "WaveCompleted",
            "WaveStarted",
            "WaveCompleted",
            "RolloutComplete"
        ]
    );
}

#[test]
fn a_wave_that_nobody_is_in_is_told() {
    let mut fleet = Fleet::new("ab", &careful());
    fleet.check("Progressing 2/3 1/2 a=1 b=-");
    fleet.pass_time(60);
    fleet.check("Progressing 3/3 2/2 a=1 b=1");
    fleet.pass_time(60);
    fleet.check("Complete 3/3 2/2 a=1 b=1");
    let told = fleet.condition("Progressing");
    assert!(
        told.ends_with("is through all waves (no cluster is in canary)"),
        "{told}"
    );
}

/// A fleet in which version `1` is everywhere.
fn stable(names: &str, spec: &Value) -> Fleet {
    let mut fleet = Fleet::new(names, &json!({}));
    fleet.settle();
    fleet.set_rollout("ro", spec);
    fleet.settle();
    assert!(fleet.shown().starts_with("Complete"), "{}", fleet.shown());
    fleet
}

#[test]
fn new_content_waits_for_its_wave() {
    let mut fleet = stable("abcd", &careful());
    fleet.set_image("2");
    fleet.check("Progressing 1/3 1/4 a=1 b=1 c=2 d=1");
    fleet.pass_time(60);
    fleet.check("Progressing 2/3 2/4 a=2 b=1 c=2 d=1");
    fleet.join('e');
    fleet.bind("abcde");
    fleet.check("Progressing 2/3 2/5 a=2 b=1 c=2 d=1 e=1");
    fleet.pass_time(60);
    fleet.check("Progressing 3/3 5/5 a=2 b=2 c=2 d=2 e=2");
    fleet.pass_time(60);
    fleet.check("Complete 3/3 5/5 a=2 b=2 c=2 d=2 e=2");
    fleet.join('f');
    fleet.bind("abcdef");
    fleet.check("Complete 3/3 6/6 a=2 b=2 c=2 d=2 e=2 f=2");
}

#[test]
fn a_failing_canary_takes_all_back_and_nobody_else_saw_it() {
    let mut fleet = stable("abcd", &careful());
    fleet.set_image("bad");
    fleet.check("Progressing 1/3 1/4 a=1 b=1 c=bad d=1");
    fleet.pass_time(299);
    fleet.check("Progressing 1/3 1/4 a=1 b=1 c=bad d=1");
    fleet.pass_time(1);
    fleet.check("RolledBack 1/3 0/4 a=1 b=1 c=1 d=1");
    let status = fleet.rollout()["status"].clone();
    assert_eq!(status["failedVersion"], status["targetVersion"]);
    assert_eq!(
        status["failures"],
        json!([{"cluster": "c", "reason": "Deployment shop/web has 0 of 1 replicas"}])
    );
    assert_eq!(status["waves"][0]["failed"], 1);
    assert_eq!(
        fleet.condition("Healthy"),
        "False ClustersFailed: 1 cluster(s) failed, 0 may: c: Deployment shop/web has 0 of 1 replicas"
    );
    // It is not tried again by itself.
    fleet.pass_time(100_000);
    fleet.check("RolledBack 1/3 0/4 a=1 b=1 c=1 d=1");
    fleet.set_image("3");
    fleet.check("Progressing 1/3 1/4 a=1 b=1 c=3 d=1");
    assert!(fleet.condition("Healthy").starts_with("True"));
    fleet.set_image("bad");
    fleet.check("Progressing 1/3 1/4 a=1 b=1 c=bad d=1");
}

#[test]
fn a_later_wave_that_fails_takes_the_earlier_ones_back_too() {
    let mut fleet = stable("abcd", &careful());
    fleet.set_image("bad-b");
    for _ in 0..2 {
        fleet.settle();
        fleet.pass_time(60);
    }
    fleet.check("Progressing 3/3 4/4 a=bad-b b=bad-b c=bad-b d=bad-b");
    fleet.pass_time(300);
    fleet.check("RolledBack 3/3 0/4 a=1 b=1 c=1 d=1");
}

#[test]
fn a_relapse_counts_once_it_has_lasted_for_the_deadline() {
    let mut fleet = stable(
        "abcd",
        &json!({"waves": [{"count": 1}], "successTime": "1h", "progressDeadline": "5m"}),
    );
    fleet.set_image("2");
    fleet.settle();
    fleet.pass_time(1_800);
    fleet.settle();
    let break_down = |fleet: &mut Fleet, up: i64| {
        let found = fleet.world.list(&apps::DESCRIPTIONS);
        let mut description = Value::clone(found.iter().find(|it| meta::namespace(it) == "ns-a").unwrap());
        description["status"]["manifestStatuses"][0]["observedStatus"]["availableReplicas"] = json!(up);
        fleet.world.put(&apps::DESCRIPTIONS, description);
        fleet.roll();
    };
    break_down(&mut fleet, 0);
    fleet.pass_time(299);
    fleet.roll();
    assert!(
        fleet.shown().starts_with("Progressing"),
        "a moment is no failure: {}",
        fleet.shown()
    );
    break_down(&mut fleet, 1);
    fleet.pass_time(299);
    break_down(&mut fleet, 0);
    fleet.pass_time(299);
    fleet.roll();
    assert!(fleet.shown().starts_with("Progressing"), "{}", fleet.shown());
    fleet.pass_time(1);
    fleet.roll();
    assert!(fleet.shown().starts_with("RollingBack"), "{}", fleet.shown());
}

#[test]
fn some_may_fail() {
    let mut spec = careful();
    spec["failureThreshold"] = json!("25%");
    let mut fleet = stable("abcd", &spec);
    fleet.set_image("bad-a");
    fleet.settle();
    fleet.pass_time(60);
    fleet.settle();
    fleet.pass_time(300);
    fleet.check("RolledBack 2/3 0/4 a=1 b=1 c=1 d=1");
    spec["failureThreshold"] = json!(1);
    fleet.set_rollout("ro", &spec);
    fleet.set_image("bad-ab");
    fleet.settle();
    fleet.pass_time(60);
    fleet.settle();
    fleet.pass_time(300);
    fleet.check("Progressing 2/3 2/4 a=bad-ab b=1 c=bad-ab d=1");
    fleet.pass_time(60);
    fleet.check("Progressing 3/3 4/4 a=bad-ab b=bad-ab c=bad-ab d=bad-ab");
    fleet.pass_time(300);
    fleet.check("RolledBack 3/3 0/4 a=1 b=1 c=1 d=1");
}

#[test]
fn what_has_nothing_to_go_back_to_stays() {
    let mut fleet = Fleet::new("abcd", &careful());
    fleet.set_image("bad");
    fleet.settle();
    fleet.pass_time(300);
    fleet.check("Failed 1/3 1/4 a=- b=- c=bad d=-");
    fleet.set_image("2");
    fleet.check("Progressing 1/3 1/4 a=- b=- c=2 d=-");
}

#[test]
fn a_failure_may_stop_instead_and_people_decide() {
    let mut spec = careful();
    spec["onFailure"] = json!("Pause");
    let mut fleet = stable("abcd", &spec);
    fleet.set_image("bad");
    fleet.settle();
    fleet.pass_time(300);
    fleet.check("Failed 1/3 1/4 a=1 b=1 c=bad d=1");
    fleet.annotate(annotations::RETRY);
    fleet.check("Progressing 1/3 1/4 a=1 b=1 c=bad d=1");
    assert_eq!(meta::annotation(&fleet.rollout(), annotations::RETRY), None);
    fleet.pass_time(300);
    fleet.check("Failed 1/3 1/4 a=1 b=1 c=bad d=1");
    fleet.annotate(annotations::UNDO);
    fleet.check("RolledBack 1/3 0/4 a=1 b=1 c=1 d=1");
    fleet.annotate(annotations::RETRY);
    fleet.check("Progressing 1/3 1/4 a=1 b=1 c=bad d=1");
    fleet.annotate(annotations::UNDO);
    fleet.check("RolledBack 1/3 0/4 a=1 b=1 c=1 d=1");
}

#[test]
fn what_is_through_can_be_undone_once() {
    let mut fleet = stable("abcd", &json!({}));
    fleet.annotate(annotations::UNDO);
    fleet.check("Complete 1/1 4/4 a=1 b=1 c=1 d=1");
    assert!(fleet.world.events.iter().any(|it| it == reasons::ROLLOUT_BLOCKED));
    fleet.set_image("2");
    fleet.check("Complete 1/1 4/4 a=2 b=2 c=2 d=2");
    fleet.annotate(annotations::UNDO);
    fleet.check("RolledBack 1/1 0/4 a=1 b=1 c=1 d=1");
    fleet.annotate(annotations::RETRY);
    fleet.check("Complete 1/1 4/4 a=2 b=2 c=2 d=2");
}

#[test]
fn what_was_distributed_before_is_taken_over_as_it_is() {
    let mut fleet = Fleet::new("abcd", &careful());
    fleet.world.delete(&rollouts::ROLLOUTS, "default", "ro");
    fleet.check("gone a=1 b=1 c=1 d=1");
    fleet.set_rollout("ro", &careful());
    fleet.check("Complete 3/3 4/4 a=1 b=1 c=1 d=1");
    fleet.set_image("2");
    fleet.check("Progressing 1/3 1/4 a=1 b=1 c=2 d=1");
}

#[test]
fn what_it_did_for_another_subscription_is_forgotten() {
    let mut fleet = Fleet::new("abcd", &careful());
    fleet.world.delete(&rollouts::ROLLOUTS, "default", "ro");
    fleet.check("gone a=1 b=1 c=1 d=1");
    fleet.set_rollout("ro", &careful());
    let mut rollout = Value::clone(&fleet.rollout());
    rollout["status"] =
        json!({"phase": "Complete", "targetVersion": "x", "stableVersion": "x", "wave": "1/1"});
    fleet.world.put(&rollouts::ROLLOUTS, rollout);
    fleet.check("Complete 3/3 4/4 a=1 b=1 c=1 d=1");
}

#[test]
fn without_its_rollout_all_get_what_is_new_and_nothing_is_kept() {
    let mut fleet = stable("abcd", &careful());
    fleet.set_image("2");
    fleet.settle();
    assert_eq!(fleet.world.list(&kubernetes::SECRETS).len(), 4);
    fleet.world.delete(&rollouts::ROLLOUTS, "default", "ro");
    fleet.check("gone a=2 b=2 c=2 d=2");
    assert_eq!(fleet.world.list(&kubernetes::SECRETS), []);
    for object in fleet
        .world
        .list(&apps::BASES)
        .iter()
        .chain(&fleet.world.list(&apps::DESCRIPTIONS))
    {
        assert_eq!(meta::annotation(object, annotations::VERSION), None);
    }
}

#[test]
fn content_that_is_put_back_goes_back_at_once() {
    let mut fleet = stable("abcd", &careful());
    fleet.set_image("2");
    fleet.settle();
    fleet.pass_time(60);
    fleet.check("Progressing 2/3 2/4 a=2 b=1 c=2 d=1");
    fleet.set_image("1");
    fleet.check("Complete 3/3 4/4 a=1 b=1 c=1 d=1");
    assert_eq!(
        fleet.world.list(&kubernetes::SECRETS).len(),
        2,
        "what was on its way is forgotten"
    );
}

#[test]
fn content_that_changes_again_begins_again() {
    let mut fleet = stable("abcd", &careful());
    fleet.set_image("2");
    fleet.settle();
    fleet.pass_time(60);
    fleet.check("Progressing 2/3 2/4 a=2 b=1 c=2 d=1");
    fleet.set_image("bad");
    fleet.check("Progressing 1/3 1/4 a=2 b=1 c=bad d=1");
    fleet.pass_time(300);
    fleet.check("RolledBack 1/3 0/4 a=1 b=1 c=1 d=1");
}

#[test]
fn a_failed_version_stays_nowhere_while_the_next_comes() {
    let mut fleet = stable(
        "abcd",
        &json!({"waves": [{"count": 1}, {"count": 1}], "progressDeadline": "5m",
        "onFailure": "Pause"}),
    );
    fleet.set_image("bad-b");
    fleet.settle();
    fleet.pass_time(300);
    fleet.check("Failed 2/3 2/4 a=bad-b b=bad-b c=1 d=1");
    fleet.set_image("bad");
    fleet.check("Progressing 1/3 1/4 a=bad b=1 c=1 d=1");
}

#[test]
fn no_more_are_on_their_way_than_may_be() {
    let mut fleet = stable("abcdefgh", &json!({"maxConcurrent": "25%"}));
    fleet.set_image("2");
    for expected in [
        "Progressing 1/1 0/8 a=2 b=2 c=1 d=1 e=1 f=1 g=1 h=1",
        "Progressing 1/1 2/8 a=2 b=2 c=2 d=2 e=1 f=1 g=1 h=1",
        "Progressing 1/1 4/8 a=2 b=2 c=2 d=2 e=2 f=2 g=1 h=1",
        "Progressing 1/1 6/8 a=2 b=2 c=2 d=2 e=2 f=2 g=2 h=2",
        "Complete 1/1 8/8 a=2 b=2 c=2 d=2 e=2 f=2 g=2 h=2",
    ] {
        fleet.turn();
        assert_eq!(fleet.shown(), expected);
    }
}

#[test]
fn clusters_that_cannot_be_reached_are_waited_for_but_not_for_ever() {
    let mut fleet = stable("abcd", &careful());
    fleet.set_ready('c', false);
    fleet.set_image("2");
    fleet.check("Progressing 1/3 0/4 a=1 b=1 c=1 d=1");
    let wave = fleet.rollout()["status"]["waves"][0].clone();
    assert_eq!((&wave["unreachable"], &wave["failed"]), (&json!(1), &json!(0)));
    fleet.pass_time(300);
    fleet.settle();
    fleet.pass_time(60);
    fleet.check("Progressing 2/3 1/4 a=2 b=1 c=1 d=1");
    fleet.set_ready('c', true);
    fleet.check("Progressing 2/3 2/4 a=2 b=1 c=2 d=1");
    fleet.set_ready('d', false);
    for _ in 0..2 {
        fleet.pass_time(400);
        fleet.settle();
    }
    fleet.pass_time(60);
    fleet.check("Complete 3/3 3/4 a=2 b=2 c=2 d=2");
    fleet.set_ready('d', true);
    fleet.check("Complete 3/3 4/4 a=2 b=2 c=2 d=2");
}

#[test]
fn nothing_moves_while_it_is_paused() {
    let mut fleet = stable("abcd", &careful());
    let mut paused = careful();
    paused["paused"] = json!(true);
    fleet.set_rollout("ro", &paused);
    fleet.set_image("bad");
    fleet.check("Paused 1/3 0/4 a=1 b=1 c=1 d=1");
    fleet.set_rollout("ro", &careful());
    fleet.check("Progressing 1/3 1/4 a=1 b=1 c=bad d=1");
    fleet.set_rollout("ro", &paused);
    fleet.pass_time(1_000);
    fleet.check("Paused 1/3 1/4 a=1 b=1 c=bad d=1");
    fleet.set_rollout("ro", &careful());
    fleet.check("RolledBack 1/3 0/4 a=1 b=1 c=1 d=1");
}

#[test]
fn of_two_the_older_counts() {
    let mut fleet = stable("abcd", &careful());
    fleet.set_rollout("another", &json!({}));
    fleet.set_image("2");
    fleet.check("Progressing 1/3 1/4 a=1 b=1 c=2 d=1");
    let another = fleet
        .world
        .get(&rollouts::ROLLOUTS, "default", "another")
        .unwrap();
    let condition = &another["status"]["conditions"][0];
    assert_eq!(condition["reason"], reasons::ANOTHER_ROLLOUT);
    assert_eq!(condition["message"], "Rollout ro is older, and it alone counts");
    fleet.world.delete(&rollouts::ROLLOUTS, "default", "ro");
    fleet.check("gone a=2 b=2 c=2 d=2");
}

#[test]
fn what_makes_no_sense_or_is_missing_moves_nothing() {
    let mut fleet = stable("abcd", &careful());
    fleet.set_rollout("ro", &json!({"waves": [{}]}));
    fleet.set_image("2");
    fleet.check("Complete 3/3 4/4 a=1 b=1 c=1 d=1");
    assert_eq!(
        fleet.condition("Progressing"),
        "False InvalidRollout: spec.waves[0]: give either clusterSelector or count"
    );
    fleet.set_rollout("ro", &careful());
    fleet.check("Progressing 1/3 1/4 a=1 b=1 c=2 d=1");
    fleet.world.delete(&apps::MANIFESTS, HOME, "web");
    fleet.pass_time(60);
    fleet.check("Progressing 1/3 1/4 a=1 b=1 c=2 d=1");
    assert_eq!(
        fleet.condition("Progressing"),
        "False RolloutBlocked: Deployment shop/web in apps/v1 does not exist"
    );
    fleet.set_image("2");
    fleet.pass_time(60);
    fleet.check("Progressing 2/3 2/4 a=2 b=1 c=2 d=1");
}

#[test]
fn a_subscription_that_comes_again_begins_from_nothing() {
    let mut fleet = stable("abcd", &careful());
    fleet.bind("");
    fleet.world.delete(&apps::SUBSCRIPTIONS, "default", "app");
    fleet.settle();
    assert_eq!(
        fleet.condition("Progressing"),
        "False SubscriptionNotFound: there is no Subscription app"
    );
    assert_eq!(fleet.world.list(&kubernetes::SECRETS), []);
    fleet.set_image("1");
    fleet.check("- - -");
    fleet.bind("abcd");
    fleet.check("Progressing 1/3 1/4 a=- b=- c=1 d=-");
}

#[test]
fn what_somebody_took_away_is_made_again_or_forgotten() {
    let mut fleet = stable("abcd", &careful());
    let all = |fleet: &Fleet| fleet.world.list(&kubernetes::SECRETS);
    let take = |fleet: &mut Fleet| {
        for secret in all(fleet) {
            fleet
                .world
                .delete(&kubernetes::SECRETS, HOME, meta::name(&secret));
        }
    };
    take(&mut fleet);
    fleet.roll();
    assert_eq!(all(&fleet).len(), 2);
    take(&mut fleet);
    fleet.set_image("bad");
    fleet.roll();
    let status = fleet.rollout()["status"].clone();
    assert!(status["stableVersion"].is_null(), "{status}");
    assert_eq!(all(&fleet).len(), 2);
}

#[test]
fn a_base_does_what_it_is_told() {
    let bare = json!({"metadata": {"name": "b"}});
    let told_before = json!({"metadata": {"name": "b", "annotations": {annotations::VERSION: "v"}}});
    let rollout = Arc::new(json!({"metadata": {"name": "ro"}}));
    let leaving = Arc::new(json!({"metadata": {"name": "ro", "deletionTimestamp": "x"}}));
    for (base, rollouts, expected) in [
        (&bare, Some(vec![]), Told::Current),
        (&told_before, Some(vec![]), Told::Current),
        (&bare, None, Told::Current),
        (
            &told_before,
            None,
            Told::Wait("nobody can tell whether there is a Rollout".into()),
        ),
        (
            &bare,
            Some(vec![Arc::clone(&rollout)]),
            Told::Wait("waiting for its wave of Rollout ro".into()),
        ),
        (
            &told_before,
            Some(vec![Arc::clone(&rollout)]),
            Told::Version("v".into()),
        ),
        (&told_before, Some(vec![leaving]), Told::Current),
    ] {
        assert_eq!(told(base, rollouts.as_deref()), expected, "{base} {rollouts:?}");
    }
}

#[test]
fn every_bound_cluster_is_in_one_wave() {
    let spec = json!({"waves": [{"name": "canary", "clusterSelector": {"matchLabels": {"stage": "canary"}}},
        {"name": "some", "count": 1}]});
    let fleet = Fleet::new("abc", &spec);
    let cluster = |namespace: &str, name: &str| {
        let found = fleet.world.get(&clusters::MANAGED_CLUSTERS, namespace, name);
        found.cloned()
    };
    let (rollouts, bases) = (
        fleet.world.list(&rollouts::ROLLOUTS),
        fleet.world.list(&apps::BASES),
    );
    let found = waves(&rollouts, &fleet.subscription(), &bases, &cluster);
    let found: Vec<(&str, &str)> = found.iter().map(|(home, wave)| (&**home, &**wave)).collect();
    assert_eq!(found, [("ns-a", "some"), ("ns-b", "rest"), ("ns-c", "canary")]);
    assert!(waves(&[], &fleet.subscription(), &bases, &cluster).is_empty());
}

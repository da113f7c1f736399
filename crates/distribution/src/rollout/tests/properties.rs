//! Whatever happens to a fleet, and wherever it is cut off.

use proptest::prelude::*;

use super::*;

/// Something that happens to a fleet.
#[derive(Debug, Clone)]
enum Step {
    Image(&'static str),
    Ready(char, bool),
    Bind(&'static str),
    Time(u64),
    Pause(bool),
    Ask(&'static str),
    /// The controllers die after so many writes of the next plan.
    Crash(usize),
    Turn,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        prop::sample::select(vec!["1", "2", "3", "bad", "bad-a", "bad-cd"]).prop_map(Step::Image),
        (prop::sample::select(vec!['a', 'c', 'd']), any::<bool>())
            .prop_map(|(name, up)| Step::Ready(name, up)),
        prop::sample::select(vec!["abcd", "abc", "bcde", "abcdef"]).prop_map(Step::Bind),
        prop::sample::select(vec![1_u64, 30, 60, 300, 1_000]).prop_map(Step::Time),
        any::<bool>().prop_map(Step::Pause),
        prop::sample::select(vec![annotations::UNDO, annotations::RETRY]).prop_map(Step::Ask),
        (0_usize..8).prop_map(Step::Crash),
        Just(Step::Turn),
        Just(Step::Turn),
    ]
}

impl Fleet {
    /// What holds after every single write: what is named can be read.
    fn assert_kept(&self) {
        let subscription = self.subscription();
        let status = self
            .world
            .get(&rollouts::ROLLOUTS, "default", "ro")
            .map(|it| it["status"].clone());
        let status = status.unwrap_or_default();
        let named = ["targetVersion", "stableVersion"].map(|it| status[it].as_str().map(str::to_owned));
        let of_bases = self.world.list(&apps::BASES);
        let of_bases = of_bases
            .iter()
            .map(|it| meta::annotation(it, annotations::VERSION).map(str::to_owned));
        for version in named.into_iter().chain(of_bases).flatten() {
            let read = Version::load(&version, &subscription, &|name| self.secret(name));
            assert!(read.is_ok(), "{version}: {read:?}");
        }
    }

    /// Carries out the first writes of a plan, one by one.
    fn carry_out(&mut self, plan: Plan, limit: usize) {
        for action in plan.actions.into_iter().take(limit) {
            if let Action::Patch {
                resource,
                target: base,
                patch,
                ..
            } = &action
                && *resource == apps::BASES
                && patch["metadata"]["annotations"]
                    .get(annotations::VERSION)
                    .is_some()
            {
                self.assert_in_order(&base.namespace, patch);
            }
            let next = Next::Done;
            self.world.apply(&Plan {
                actions: vec![action],
                next,
            });
            self.assert_kept();
        }
    }

    /// A cluster gets the target, if that is not where all are to be, only when the waves before its own are through.
    fn assert_in_order(&self, home: &str, patch: &Value) {
        let rollout = self.rollout();
        let status = &rollout["status"];
        let version = &patch["metadata"]["annotations"][annotations::VERSION];
        if *version != status["targetVersion"] || *version == status["stableVersion"] {
            return;
        }
        assert_eq!(status["phase"], "Progressing", "{status}");
        let waves = status["waves"].as_array().unwrap();
        let begun = waves.iter().filter(|it| it["startedAt"].is_string()).count();
        let through = waves
            .iter()
            .take(begun - 1)
            .all(|it| it["completedAt"].is_string());
        assert!(through, "{status}");
        let canary = home == "ns-c";
        assert!(
            canary || begun > 1 || waves.len() == 1,
            "{home} is not in the first wave: {status}"
        );
        let cluster = self
            .world
            .get(&clusters::MANAGED_CLUSTERS, home, &home[3..])
            .unwrap();
        assert_eq!(cluster["status"]["conditions"][0]["status"], "True");
    }

    /// How many clusters with the target are not available, of those that can be reached.
    fn on_their_way(&self) -> usize {
        let rollout = self.rollout();
        let target = rollout["status"]["targetVersion"].as_str().unwrap_or_default();
        let bases = self.world.list(&apps::BASES);
        let waiting = bases.iter().filter(|it| {
            meta::annotation(it, annotations::VERSION) == Some(target)
                && meta::annotation(it, annotations::WAITING_SINCE).is_some()
        });
        waiting.count()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// Whatever happens, and wherever it is cut off: a plan carried out is all there is to do, what is named is kept,
    /// waves come in their order, and in the end all are at the target or back at what is good.
    #[test]
    fn it_comes_to_a_good_end(steps in proptest::collection::vec(step(), 1..30)) {
        let mut spec = careful();
        spec["maxConcurrent"] = json!(1);
        spec["failureThreshold"] = json!(1);
        let mut fleet = stable("abcd", &json!({}));
        fleet.join('e');
        fleet.join('f');
        fleet.set_rollout("ro", &spec);
        for step in steps {
            match step {
                Step::Image(image) => fleet.set_image(image),
                Step::Ready(name, up) => fleet.set_ready(name, up),
                Step::Bind(names) => fleet.bind(names),
                Step::Time(seconds) => fleet.pass_time(seconds),
                Step::Pause(paused) => {
                    spec["paused"] = json!(paused);
                    fleet.set_rollout("ro", &spec);
                }
                Step::Ask(what) => fleet.annotate(what),
                Step::Crash(writes) => {
                    let plan = fleet.plan();
                    fleet.carry_out(plan, writes);
                }
                Step::Turn => {
                    let plan = fleet.plan();
                    fleet.carry_out(plan, usize::MAX);
                    let again = fleet.plan();
                    prop_assert!(!again.writes(), "{}", writes_of(&again));
                    fleet.describe();
                    fleet.report();
                }
            }
        }
        spec["paused"] = json!(false);
        fleet.set_rollout("ro", &spec);
        "acd".chars().for_each(|name| fleet.set_ready(name, true));
        for _ in 0..12 {
            fleet.settle();
            fleet.pass_time(400);
        }
        fleet.settle();
        let status = fleet.rollout()["status"].clone();
        let phase = status["phase"].as_str().unwrap_or_default();
        let wanted = match phase {
            "Complete" => &status["targetVersion"],
            "RolledBack" => &status["stableVersion"],
            other => panic!("it ends as {other}: {}", fleet.shown()),
        };
        for base in fleet.world.list(&apps::BASES) {
            prop_assert_eq!(meta::annotation(&base, annotations::VERSION), wanted.as_str());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3, ..ProptestConfig::default() })]

    /// Never more than may be are on their way, wherever it is cut off.
    #[test]
    fn a_limit_holds_at_every_write(images in proptest::collection::vec(prop::sample::select(vec!["1", "2", "bad-a", "3"]), 1..4), crash in 0_usize..12) {
        let mut fleet = stable("abcdefgh", &json!({"maxConcurrent": 2, "progressDeadline": "5m"}));
        for image in images {
            fleet.set_image(image);
            for _ in 0..20 {
                let plan = fleet.plan();
                fleet.carry_out(plan, crash + 1);
                let going_back = fleet.shown().starts_with("Roll");
                let put_back = fleet.rollout()["status"]["targetVersion"] == fleet.rollout()["status"]["stableVersion"];
                prop_assert!(going_back || put_back || fleet.on_their_way() <= 2, "{}", fleet.shown());
                fleet.describe();
                fleet.report();
                fleet.pass_time(20);
            }
        }
    }
}

//! A Rollout on `tombolo up`: waves, a bad version that only its canary sees, and the way back.

use std::time::Duration;

use e2e::{Bench, Kubectl, Up, contains, wait_for};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(120);
const TEMPLATES: &str = include_str!("../../../examples/rollout/templates.yaml");
const SUBSCRIPTION: &str = include_str!("../../../examples/rollout/subscription.yaml");
const ROLLOUT: &str = include_str!("../../../examples/rollout/rollout.yaml");

/// The templates with another image, and pods that come up, or do not.
fn templates(image: &str, annotations: &str) -> String {
    TEMPLATES.replace("nginx:1.28", image).replace(
        "      labels:\n        app: web\n    spec:",
        &format!("      labels:\n        app: web\n      annotations: {annotations}\n    spec:"),
    )
}

struct Fleet {
    up: Up,
    kubectl: Kubectl,
    members: Vec<Kubectl>,
}

impl Fleet {
    fn distribute(&self, text: &str) {
        let file = self.up.folder.path().join("templates.yaml");
        std::fs::write(&file, text).expect("a file can be written");
        self.up.ours(&["apply", "-f", file.to_str().expect("a path")]);
    }

    /// The Rollout, once this holds of its status.
    fn await_status(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        wait_for(what, PATIENCE, || {
            let rollout = self.kubectl.json("rollout shop")?;
            if holds(&rollout["status"]) {
                Ok(rollout)
            } else {
                Err(rollout.to_string())
            }
        })
    }

    fn await_phase(&self, phase: &str) -> Value {
        self.await_status(phase, |status| status["phase"] == phase)
    }

    /// The images that each member's Deployment has ever had.
    fn seen(&self) -> Vec<Vec<String>> {
        let of = |member: &Kubectl| {
            let sets = member.json("rs -n shop").expect("ReplicaSets");
            let sets = sets["items"].as_array().expect("a list").clone();
            let image = |set: &Value| set["spec"]["template"]["spec"]["containers"][0]["image"].clone();
            let mut images: Vec<String> = sets
                .iter()
                .filter_map(|it| Some(image(it).as_str()?.to_owned()))
                .collect();
            images.sort();
            images
        };
        self.members.iter().map(of).collect()
    }

    fn image(&self, member: usize) -> Result<String, String> {
        let path = "-o jsonpath={.spec.template.spec.containers[0].image}";
        self.members[member].try_run(&format!("-n shop get deployment web {path}"))
    }

    fn await_images(&self, image: &str) {
        wait_for("the image everywhere", PATIENCE, || {
            let images: Vec<_> = (0..3).map(|member| self.image(member)).collect();
            let all = images.iter().all(|it| it.as_deref() == Ok(image));
            all.then_some(()).ok_or_else(|| format!("{images:?}"))
        });
    }
}

#[test]
fn a_bad_version_is_seen_by_its_canary_alone() {
    let Some(bench) = Bench::find("a_bad_version_is_seen_by_its_canary_alone") else {
        return;
    };
    let up = Up::start(&bench, &["--members", "3"]);
    let members = ["member-1", "member-2", "member-3"];
    let fleet = Fleet {
        kubectl: up.kubectl(),
        members: members.into_iter().map(|name| up.member(name)).collect(),
        up,
    };
    let (up, kubectl) = (&fleet.up, &fleet.kubectl);

    // The first version goes wave by wave.
    fleet.distribute(TEMPLATES);
    // A slow machine is no failure.
    let patient = ROLLOUT.replace("progressDeadline: 10s", "progressDeadline: 30s");
    kubectl.with_input("apply -f -", &patient);
    kubectl.with_input("apply -f -", SUBSCRIPTION);
    let followed = up.ours(&["rollout", "status", "shop", "-w"]);
    contains(
        &followed,
        &[
            "wave canary",
            "Complete: wave 3/3, 3/3 cluster(s) updated",
            "tenth",
        ],
    );
    fleet.await_images("nginx:1.28");
    let status = fleet.await_phase("Complete")["status"].clone();
    let begun: Vec<&str> = (0..3)
        .filter_map(|wave| status["waves"][wave]["startedAt"].as_str())
        .collect();
    assert!(
        begun.len() == 3 && begun[0] < begun[1] && begun[1] < begun[2],
        "{begun:?}"
    );
    let first = status["stableVersion"].clone();

    // A good one.
    fleet.distribute(&templates("nginx:1.29", "{}"));
    fleet.await_status("the second version", |status| {
        status["phase"] == "Complete" && status["stableVersion"] != first
    });
    fleet.await_images("nginx:1.29");
    contains(
        &kubectl.run("get ro"),
        &["SUBSCRIPTION", "PHASE", "WAVE", "UPDATED", "Complete", "3/3"],
    );

    // A bad one.
    fleet.distribute(&templates(
        "nginx:bad",
        "{members.tombolo.io/fail: ImagePullBackOff}",
    ));
    let back = fleet.await_phase("RolledBack")["status"].clone();
    assert_eq!(back["failures"][0]["cluster"], "member-1", "{back}");
    assert_eq!(back["failedVersion"], back["targetVersion"], "{back}");
    fleet.await_images("nginx:1.29");
    assert_eq!(
        fleet.seen(),
        [
            vec!["nginx:1.28", "nginx:1.29", "nginx:bad"],
            vec!["nginx:1.28", "nginx:1.29"],
            vec!["nginx:1.28", "nginx:1.29"],
        ]
    );
    let complaint = up
        .try_ours(&["rollout", "status", "shop"])
        .expect_err("it failed");
    contains(&complaint, &["went back", "tombolo rollout retry shop"]);
    contains(
        &kubectl.run("get events --field-selector involvedObject.kind=Rollout"),
        &[
            "RolloutStarted",
            "WaveStarted",
            "WaveCompleted",
            "RollingBack",
            "RolledBack",
            "member-1",
        ],
    );

    // People decide otherwise, and once more.
    up.ours(&["rollout", "retry", "shop"]);
    fleet.await_phase("Progressing");
    up.ours(&["rollout", "pause", "shop"]);
    fleet.await_phase("Paused");
    up.ours(&["rollout", "undo", "shop"]);
    fleet.await_phase("RolledBack");
    up.ours(&["rollout", "resume", "shop"]);
    fleet.await_images("nginx:1.29");

    // Without the Rollout it is as ever, and nothing is kept.
    let kept = || kubectl.run("-n clusternet-reserved get secrets -o name");
    contains(&kept(), &["secret/revision-"]);
    kubectl.run("delete rollout shop");
    fleet.await_images("nginx:bad");
    wait_for("nothing is kept", PATIENCE, || match kept() {
        empty if empty.is_empty() => Ok(()),
        some => Err(some),
    });
    let annotated = kubectl.run("get bases,descriptions -A -o yaml");
    assert!(!annotated.contains("apps.tombolo.io/version"), "{annotated}");
}

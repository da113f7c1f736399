//! A fleet on real Kubernetes: a parent, two children, and each part of the system as a process, ours or a peer's.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::{Bench, ControlPlane, Kubectl, Process, Suite, tombolo, wait_for};

/// How long a part may take to end.
const END: Duration = Duration::from_secs(10);
/// Between the ports of two control planes.
const PORTS_OF_A_PLANE: u16 = 20;

/// A part of the system, as a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The hub.
    Hub,
    /// The scheduler.
    Scheduler,
    /// The controllers.
    Controllers,
    /// The agent of a child, by its place in [`Fleet::children`].
    Agent(usize),
}

impl Part {
    /// All parts of a fleet.
    pub const ALL: [Self; 5] = [
        Self::Hub,
        Self::Scheduler,
        Self::Controllers,
        Self::Agent(0),
        Self::Agent(1),
    ];

    /// Its service account, in the parent or in its child; upstream's program is called so too.
    pub fn account(self) -> &'static str {
        match self {
            Self::Hub => api::names::HUB,
            Self::Scheduler => api::names::SCHEDULER,
            Self::Controllers => api::names::CONTROLLERS,
            Self::Agent(_) => api::names::AGENT,
        }
    }

    /// Our command.
    fn role(self) -> &'static str {
        match self {
            Self::Hub => "hub",
            Self::Scheduler => "scheduler",
            Self::Controllers => "controllers",
            Self::Agent(_) => "agent",
        }
    }

    /// What its files are called.
    fn name(self) -> String {
        match self {
            Self::Agent(child) => format!("agent-{}", child_name(child)),
            Self::Hub | Self::Scheduler | Self::Controllers => self.role().to_owned(),
        }
    }
}

/// Whose program a part runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Make {
    /// The program under test.
    Ours,
    /// Upstream's, at this path.
    Upstream(PathBuf),
}

/// The name of a child.
fn child_name(child: usize) -> String {
    format!("child-{}", child + 1)
}

/// What a fleet is started with.
#[derive(Debug, Clone, Copy)]
pub struct Settings<'a> {
    /// What its control planes' names begin with.
    pub prefix: &'a str,
    /// The first of the ports that it takes, a hundred of them.
    pub port: u16,
    /// Gates for our controllers and agents, as their flag has them.
    pub gates: &'a str,
    /// The sync mode that agents ask for.
    pub mode: &'a str,
    /// Further words for `tombolo install`.
    pub install: &'a [&'a str],
}

/// A parent and two children, with the parts that were started. Dropping it ends everything.
#[derive(Debug)]
pub struct Fleet {
    /// Where programs are.
    pub bench: Bench,
    // Before the control planes, so that they end before those.
    parts: BTreeMap<Part, (Make, Process)>,
    /// The parent.
    pub parent: ControlPlane,
    /// The children, `child-1` and `child-2`; three nodes each.
    pub children: [ControlPlane; 2],
    /// For files.
    pub folder: tempfile::TempDir,
    port: u16,
    gates: String,
    mode: String,
    token: String,
}

impl Fleet {
    /// Starts the control planes and prepares them; no part runs yet.
    ///
    /// # Panics
    /// When that fails.
    pub fn start(bench: &Bench, settings: Settings<'_>) -> Self {
        let Settings {
            prefix,
            port,
            gates,
            mode,
            install,
        } = settings;
        let parent = ControlPlane::start(bench, &format!("{prefix}parent"), port, "api kcm");
        let child = |index: usize, port: u16| {
            let name = format!("{prefix}{}", child_name(index));
            let child = ControlPlane::start(bench, &name, port, "api kcm scheduler kwok");
            child.add_nodes(3);
            let rights = output(tombolo(bench, &["join", "--print-rights"])).expect("it prints");
            child.kubectl().with_input("apply --server-side -f -", &rights);
            child
        };
        let children = [
            child(0, port + PORTS_OF_A_PLANE),
            child(1, port + 2 * PORTS_OF_A_PLANE),
        ];
        let mut fleet = Self {
            bench: bench.clone(),
            parts: BTreeMap::new(),
            parent,
            children,
            folder: tempfile::tempdir().expect("a temporary folder"),
            port,
            gates: gates.to_owned(),
            mode: mode.to_owned(),
            token: String::new(),
        };
        let port = fleet.port_of(Part::Hub).to_string();
        let mut command = tombolo(
            bench,
            &["install", "--hub-external-name", "localhost", "--hub-port", &port],
        );
        command.args(install);
        let manifests = output(command).expect("it prints");
        let admin = fleet.admin();
        admin.with_input("apply --server-side -f -", &manifests);
        fleet.token = bootstrap_token(&admin);
        fleet
    }

    /// A kubectl for the parent's administrator.
    pub fn admin(&self) -> Kubectl {
        self.parent.kubectl()
    }

    /// Runs our own command against the parent: its output.
    ///
    /// # Errors
    /// What it wrote to standard error when it failed.
    pub fn try_ours(&self, line: &[&str]) -> Result<String, String> {
        let mut command = tombolo(&self.bench, line);
        command.arg("--kubeconfig").arg(self.parent.kubeconfig());
        output(command)
    }

    /// What an application has to find here.
    pub fn suite(&self) -> Suite<'_> {
        Suite {
            admin: self.admin(),
            ours: Box::new(|line| self.try_ours(line)),
            clusters: [0, 1].map(|child| (child_name(child), self.children[child].kubectl())),
            folder: self.folder.path().to_owned(),
        }
    }

    /// The port on which a part serves; the hub has the next one for other hubs too.
    pub fn port_of(&self, part: Part) -> u16 {
        let offset = match part {
            Part::Hub => 0,
            Part::Scheduler => 2,
            Part::Controllers => 3,
            Part::Agent(child) => 4 + 2 * u16::try_from(child).expect("there are two"),
        };
        self.port + 3 * PORTS_OF_A_PLANE + offset
    }

    /// Starts a part; one that runs is ended first.
    ///
    /// # Panics
    /// When it does not start, or the earlier one does not end.
    pub fn run(&mut self, part: Part, make: &Make) {
        self.stop(part);
        let child = match part {
            Part::Agent(child) => Some(child),
            Part::Hub | Part::Scheduler | Part::Controllers => None,
        };
        let plane = child.map_or(&self.parent, |child| &self.children[child]);
        let folder = self.folder.path();
        let kubeconfig =
            plane.service_account_kubeconfig(api::names::SYSTEM_NAMESPACE, part.account(), folder);
        let mut command = match make {
            Make::Ours => tombolo(&self.bench, &[part.role()]),
            Make::Upstream(program) => Command::new(program),
        };
        command.arg("--kubeconfig").arg(&kubeconfig);
        command.args(["--secure-port", &self.port_of(part).to_string()]);
        match make {
            Make::Ours => self.say_ours(part, &mut command),
            Make::Upstream(_) => self.say_upstreams(part, &kubeconfig, &mut command),
        }
        let process = Process::start(&part.name(), &mut command, folder);
        self.parts.insert(part, (make.clone(), process));
    }

    /// Ends a part, if it runs. One of upstream's is killed when it takes too long, as a kubelet does.
    ///
    /// # Panics
    /// When one of ours does not end in time.
    pub fn stop(&mut self, part: Part) {
        if let Some((make, mut process)) = self.parts.remove(&part) {
            let ended = process.stop(END);
            assert!(
                make != Make::Ours || ended.is_ok(),
                "{part:?} does not end: {ended:?}"
            );
        }
    }

    fn say_ours(&self, part: Part, command: &mut Command) {
        match part {
            Part::Hub => {
                command.args([
                    "--bind-address",
                    "127.0.0.1",
                    "--peer-advertise-address",
                    "127.0.0.1",
                ]);
                command.args(["--peer-port", &(self.port_of(part) + 1).to_string()]);
            }
            Part::Scheduler => {
                command.arg("--leader-elect=true");
            }
            Part::Controllers => {
                command.args([
                    "--leader-elect=true",
                    "--controllers=*",
                    "--feature-gates",
                    &self.gates,
                ]);
            }
            Part::Agent(child) => {
                self.say_agents(child, command);
                command.arg("--cluster-reg-parent-ca").arg(self.parent.ca());
                command.args(["--feature-gates", &self.gates]);
            }
        }
    }

    /// As upstream's shipped Deployments, as far as the place allows.
    fn say_upstreams(&self, part: Part, kubeconfig: &Path, command: &mut Command) {
        command.args(["--leader-elect=true", "--bind-address", "127.0.0.1"]);
        command
            .arg("--cert-dir")
            .arg(self.folder.path().join(part.name()));
        match part {
            Part::Hub => {
                command.args(["--peer-advertise-address", "127.0.0.1"]);
                command.args(["--peer-port", &(self.port_of(part) + 1).to_string()]);
                command.arg("--feature-gates=SocketConnection=true,ShadowAPI=true");
                command.arg("--authentication-kubeconfig").arg(kubeconfig);
                command.arg("--authorization-kubeconfig").arg(kubeconfig);
            }
            Part::Scheduler => {
                command.arg("--feature-gates=FailOver=true,FeasibleClustersToleration=true");
            }
            Part::Controllers => {
                command.args(["--controllers=*", "--anonymous-auth-supported=true"]);
                command.arg(
                    "--feature-gates=SocketConnection=true,Deployer=true,FeedInUseProtection=true,\
                     FeedInventory=true,ClusterInit=false,MultiClusterService=true",
                );
            }
            Part::Agent(child) => {
                self.say_agents(child, command);
                command.args(["--predictor-port", &(self.port_of(part) + 1).to_string()]);
                command.arg(
                    "--feature-gates=SocketConnection=true,AppPusher=true,Recovery=true,Predictor=true,\
                     MultiClusterService=true",
                );
            }
        }
    }

    fn say_agents(&self, child: usize, command: &mut Command) {
        command.args(["--cluster-reg-parent-url", &self.parent.url()]);
        command.args(["--cluster-reg-token", &self.token]);
        command.args(["--cluster-reg-name", &child_name(child)]);
        command.args(["--cluster-labels", "demo=nginx"]);
        command.args(["--cluster-sync-mode", &self.mode]);
        for flag in [
            "--cluster-status-update-frequency",
            // Upstream's agents report when they looked, and are late for long if they look less often.
            "--cluster-status-collect-frequency",
        ] {
            command.args([flag, "5s"]);
        }
    }

    /// Waits until the parent takes the hub's groups as served.
    ///
    /// # Panics
    /// When that does not come.
    pub fn wait_for_the_hub(&self) {
        for name in ["v1alpha1.proxies.clusternet.io", "v1alpha1.shadow"] {
            self.admin().run(&format!(
                "wait --for=condition=Available apiservice/{name} --timeout=60s"
            ));
        }
    }

    /// Waits until both clusters are ready.
    ///
    /// # Panics
    /// When they do not become so.
    pub fn wait_for_the_clusters(&self) {
        let admin = self.admin();
        wait_for("both clusters are ready", Duration::from_secs(90), || {
            let list = admin.json("managedclusters -A")?;
            let clusters = list["items"].as_array().into_iter().flatten();
            match clusters.filter(|cluster| is_true(cluster, "Ready")).count() {
                2 => Ok(()),
                ready => Err(format!("{ready} of 2 are ready")),
            }
        });
    }

    /// A kubectl that reaches a child through the hub, by a kubeconfig of ours.
    ///
    /// # Panics
    /// When there is no way to it in time.
    pub fn through_the_hub(&self, child: usize) -> (Kubectl, PathBuf) {
        let name = child_name(child);
        // The agent publishes its credential beside everything else that it does.
        let kubeconfig = wait_for("a kubeconfig through the hub", Duration::from_secs(60), || {
            self.try_ours(&["kubeconfig", &name])
        });
        let path = self.folder.path().join(format!("{name}-through-hub.kubeconfig"));
        std::fs::write(&path, kubeconfig).expect("a kubeconfig can be written");
        (self.bench.kubectl(&path), path)
    }
}

/// A command's standard output.
fn output(mut command: Command) -> Result<String, String> {
    let output = command.output().map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        Err(text(&output.stderr))
    }
}

/// Whether an object's condition holds.
fn is_true(object: &Value, kind: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions
        .into_iter()
        .any(|condition| condition["type"] == kind && condition["status"] == "True")
}

fn bootstrap_token(admin: &Kubectl) -> String {
    let (id, secret) = ("e2etok", "0123456789abcdef");
    admin.with_input(
        "apply -f -",
        &format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: bootstrap-token-{id}, namespace: kube-system}}\n\
             type: bootstrap.kubernetes.io/token\nstringData:\n  token-id: {id}\n  token-secret: {secret}\n  \
             usage-bootstrap-authentication: \"true\"\n  auth-extra-groups: \
             system:bootstrappers:clusternet:register-cluster-token\n"
        ),
    );
    format!("{id}.{secret}")
}

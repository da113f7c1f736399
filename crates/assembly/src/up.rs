//! `up`: a whole fleet's control plane in one process.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use api::kubernetes::SECRETS;
use api::names::BOOTSTRAP_GROUP;
use api::secret;
use apiserver::pki::Step;
use clock::Env;
use kubeio::{Client, ListOptions};
use runtime::{CancellationToken, Supervisor};
use serde_json::json;
use tokio::time::Instant;

use crate::demo::{self, Watcher, shown};
use crate::member::{MemberConfig, start_member};
use crate::parent::Role;
use crate::{DataDir, Error, HttpsParent, Plane, backup, data_dir, parent, plane};

/// How long the roles may take to stop: they give back their leases.
const ROLES_DEADLINE: Duration = Duration::from_secs(4);
/// How long the control planes may take after them.
const PLANES_DEADLINE: Duration = Duration::from_secs(5);
/// How long `--exit-when-ready` waits.
const READY_LIMIT: Duration = Duration::from_secs(60);
/// How many nodes a simulated member has.
const NODES: usize = 3;
/// Marks the bootstrap token of the simulated members.
const MEMBERS_TOKEN_LABEL: &str = "tombolo.io/bootstrap-token";

/// What `up` is asked for.
#[derive(Debug, Clone)]
pub struct UpConfig {
    /// Where everything is kept.
    pub data_dir: PathBuf,
    /// Where to listen.
    pub listen: SocketAddr,
    /// How many simulated members join.
    pub members: usize,
    /// Whether the sample application is distributed.
    pub demo: bool,
    /// Whether to end once everything is ready.
    pub exit_when_ready: bool,
    /// Whether to take the next step of replacing the hub's certificate authority first.
    pub replace_authority: bool,
    /// What does not run in this process.
    pub without: Vec<Role>,
}

/// Runs until the token is cancelled (or everything is ready, if that was asked for).
///
/// # Errors
/// [`Error`] of the part that does not start or fails.
pub async fn up(
    config: UpConfig,
    env: Env,
    shutdown: CancellationToken,
    out: &mut (dyn Write + Send),
) -> Result<(), Error> {
    let folder = DataDir::lock(&config.data_dir)?;
    // The roles stop first, while there still is something to give their leases back to.
    let mut tasks = Tasks {
        roles: Supervisor::new(shutdown.clone()),
        planes: Supervisor::new(CancellationToken::new()),
    };
    let outcome = tokio::select! {
        biased;
        () = shutdown.cancelled() => Ok(()),
        outcome = start(&config, &folder, &env, &mut tasks, out) => outcome,
    };
    if outcome.is_err() || config.exit_when_ready {
        shutdown.cancel();
    }
    let stopped = tasks.run(shutdown).await;
    outcome?;
    stopped
}

/// What runs: roles, and the control planes below them.
struct Tasks {
    roles: Supervisor,
    planes: Supervisor,
}

impl Tasks {
    /// Waits for `shutdown` or a failure, then stops the roles, then the control planes.
    async fn run(self, shutdown: CancellationToken) -> Result<(), Error> {
        let planes_down = self.planes.shutdown().clone();
        let roles = async {
            let ended = self.roles.run(ROLES_DEADLINE).await;
            planes_down.cancel();
            ended
        };
        let planes = async {
            let ended = self.planes.run(PLANES_DEADLINE).await;
            shutdown.cancel();
            ended
        };
        let (roles, planes) = tokio::join!(roles, planes);
        roles?;
        Ok(planes?)
    }
}

async fn start(
    config: &UpConfig,
    folder: &DataDir,
    env: &Env,
    tasks: &mut Tasks,
    out: &mut (dyn Write + Send),
) -> Result<(), Error> {
    let begin = Instant::now();
    let mut say = |line: String| writeln!(out, "{line}").map_err(Error::Output);
    if config.replace_authority {
        say(told(plane::replace_authority(folder.root(), env)?).to_owned())?;
    }
    let parent = Plane::start(
        "tombolo",
        folder.root(),
        config.listen,
        env,
        None,
        &mut tasks.planes,
    )
    .await?;
    say(format!(
        "{:>8}  control plane ready at {}",
        shown(begin.elapsed()),
        parent.url
    ))?;
    backup::serve(&parent);
    let administrator = parent.administrator();
    let prepared = parent::prepare(&administrator).await?;
    let hub = parent::start_roles(&parent, env, &config.without, &mut tasks.roles);
    // Not before: whoever finds it finds everything behind it.
    hand_out_kubeconfig(folder, &parent, &mut tasks.roles)?;
    let (made, changed) = (prepared.created, prepared.changed);
    say(format!(
        "{:>8}  {} running ({made} objects made, {changed} changed)",
        shown(begin.elapsed()),
        running(&config.without)
    ))?;
    if config.members == 0 {
        say(format!("kubeconfig: {}", folder.kubeconfig().display()))?;
        return Ok(());
    }

    let names: Vec<String> = (1..=config.members)
        .map(|index| format!("member-{index}"))
        .collect();
    let token = bootstrap_token(&administrator, env).await?;
    for name in &names {
        let member = MemberConfig {
            name: name.clone(),
            nodes: NODES,
            labels: [(demo::LABEL.0.to_owned(), demo::LABEL.1.to_owned())].into(),
            token: token.clone(),
        };
        let to_parent = HttpsParent {
            url: parent.url.clone(),
            authority_pem: Some(parent.authority_pem.clone()),
        };
        start_member(
            member,
            &folder.member(name),
            to_parent,
            env,
            &mut tasks.planes,
            &mut tasks.roles,
        )
        .await?;
    }
    say(format!(
        "{:>8}  {} simulated members started",
        shown(begin.elapsed()),
        names.len()
    ))?;
    let mut watcher = Watcher::start(&administrator, hub, names.clone()).await;
    let mut distributes = config.demo;
    if config.demo {
        let sample = demo::distribute(&administrator).await?;
        say(format!("{:>8}  {sample}", shown(begin.elapsed())))?;
        distributes = sample.deleted.is_empty();
        watcher.expect(sample.objects);
    }
    let deadline = config.exit_when_ready.then(|| begin + READY_LIMIT);
    let not_ready = |missing: Vec<String>| Error::NotReady {
        seconds: READY_LIMIT.as_secs(),
        missing: missing.join(", "),
    };
    watcher.clusters_ready(deadline).await.map_err(not_ready)?;
    say(format!(
        "{:>8}  {} clusters, all ready",
        shown(begin.elapsed()),
        names.len()
    ))?;
    if distributes {
        watcher.distributed(deadline).await.map_err(not_ready)?;
        say(format!(
            "{:>8}  nginx runs in all of them",
            shown(begin.elapsed())
        ))?;
        say(String::new())?;
        demo::print_rows(out, &watcher.rows()).map_err(Error::Output)?;
    }
    if config.demo {
        print_next_steps(out, folder).map_err(Error::Output)?;
    }
    Ok(())
}

/// What a step means.
fn told(step: Step) -> &'static str {
    match step {
        Step::Announce => {
            "a new certificate authority is announced: it signs in 30 days, or from the next start with --rotate-ca"
        }
        Step::Succeed => {
            "the new certificate authority signs: the old one is trusted until 60 days after the announcement, or the next \
             start with --rotate-ca"
        }
        Step::Forget => "the old certificate authority is trusted no longer",
    }
}

/// Which roles run, in words.
fn running(without: &[Role]) -> String {
    let roles = Role::ALL.iter().filter(|role| !without.contains(*role));
    let mut names: Vec<&str> = roles.map(|role| role.name()).collect();
    let Some(last) = names.pop() else {
        return "hub".to_owned();
    };
    names.insert(0, "hub");
    format!("{} and {last}", names.join(", "))
}

/// Writes the administrator's kubeconfig, now and whenever its certificate is renewed.
fn hand_out_kubeconfig(folder: &DataDir, parent: &Plane, roles: &mut Supervisor) -> Result<(), Error> {
    let text = parent.kubeconfig.borrow().clone();
    data_dir::write_private(&folder.kubeconfig(), &text).map_err(|source| Error::Folder {
        path: folder.root().to_owned(),
        source,
    })?;
    let rewriting = data_dir::rewrite_private(folder.kubeconfig(), parent.kubeconfig.clone());
    let shutdown = roles.shutdown().clone();
    roles.spawn("kubeconfig", async move {
        shutdown.run_until_cancelled(rewriting).await;
        Ok::<(), Error>(())
    });
    Ok(())
}

fn print_next_steps(out: &mut (dyn Write + Send), folder: &DataDir) -> std::io::Result<()> {
    let kubeconfig = folder.kubeconfig();
    let (kubeconfig, data_dir) = (kubeconfig.display(), folder.root().display());
    writeln!(out, "\nTry next, in another terminal:")?;
    writeln!(out, "  kubectl --kubeconfig {kubeconfig} get mcls,subs,desc -A")?;
    writeln!(
        out,
        "  tombolo scale deployment/nginx --replicas 4 -n web --data-dir {data_dir}"
    )?;
    writeln!(
        out,
        "  tombolo kubeconfig member-1 --data-dir {data_dir} > m1 && kubectl --kubeconfig m1 get pods -A"
    )?;
    writeln!(out, "Ctrl-C stops everything; the next start finds it as it was.")
}

/// The bootstrap token of the simulated members: the one that is there, or a new one.
async fn bootstrap_token(administrator: &Client, env: &Env) -> Result<String, Error> {
    let system = Some("kube-system");
    let found = administrator
        .list_all(&SECRETS, system, &ListOptions::labels(MEMBERS_TOKEN_LABEL))
        .await?
        .items
        .into_iter()
        .next();
    let secret = match found {
        Some(secret) => secret,
        None => {
            let (id, secret) = (env.suffix(6), env.suffix(16));
            let object = json!({
                "apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
                "metadata": {
                    "name": format!("bootstrap-token-{id}"), "namespace": "kube-system",
                    "labels": {MEMBERS_TOKEN_LABEL: "members"},
                },
                "stringData": {
                    "token-id": id, "token-secret": secret, "usage-bootstrap-authentication": "true",
                    "auth-extra-groups": BOOTSTRAP_GROUP,
                },
            });
            let failed = |source| Error::Object {
                object: "the members' bootstrap token".into(),
                source,
            };
            administrator
                .create(&SECRETS, system, &object)
                .await
                .map_err(failed)?
        }
    };
    let text = |key| secret::text(&secret, key).unwrap_or_default();
    Ok(format!("{}.{}", text("token-id"), text("token-secret")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_which_roles_run() {
        for (without, expected) in [
            (&[] as &[Role], "hub, scheduler and controllers"),
            (&[Role::Controllers], "hub and scheduler"),
            (&[Role::Scheduler], "hub and controllers"),
            (&Role::ALL, "hub"),
        ] {
            assert_eq!(running(without), expected);
        }
    }
}

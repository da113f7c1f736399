//! What goes wrong, and when: chosen by the seed, then carried out.

use std::fmt;
use std::time::Duration;

use clock::SplitMix;
use kubeio::Patch;
use serde_json::json;

use super::cluster::{Cluster, Death};
use super::door::{Fuse, Moment};
use super::fleet::Fleet;
use super::link::Link;
use super::world;

/// One thing that goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A member's tunnel breaks; the agent may connect again at once.
    CutTunnel { member: usize },
    /// A member cannot reach the parent, and is told so.
    Partition { member: usize, lasts: Duration },
    /// A member's messages vanish, and so do the parent's.
    Silence { member: usize, lasts: Duration },
    /// The parent does what a member asks, and the answer is lost.
    LoseAnswers {
        member: usize,
        per_mille: usize,
        lasts: Duration,
    },
    /// A role's own cluster does what it asks, and the answer is lost.
    LoseNearAnswers {
        role: usize,
        per_mille: usize,
        lasts: Duration,
    },
    /// All connections of a role to its own cluster are reset, its watches too.
    ResetNear { role: usize },
    /// A control plane dies, in the middle of a disk step if there is one soon.
    Crash {
        cluster: usize,
        after_steps: u64,
        death: Death,
        lasts: Duration,
    },
    /// A role dies at one of its writes.
    KillRole {
        role: usize,
        after_writes: u32,
        moment: Moment,
    },
    /// A control plane has no disk space for a while.
    FullDisk { cluster: usize, lasts: Duration },
    /// What is written over a link, and what its watches tell, arrives twice.
    Repeat {
        way: Over,
        per_mille: usize,
        lasts: Duration,
    },
    /// Each piece of a watch comes late, one watch overtakes another.
    Reorder {
        way: Over,
        most: Duration,
        lasts: Duration,
    },
    /// Somebody sets a cluster's clock, and after a while sets it right.
    SetClock {
        cluster: usize,
        forward_ms: i64,
        lasts: Duration,
    },
    /// Somebody deletes the Deployment in a member.
    DeleteInMember { member: usize },
    /// Somebody scales the Deployment in a member.
    ScaleInMember { member: usize },
}

/// A link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    /// From a role to its own cluster.
    Near { role: usize },
    /// From a member's agent to the parent.
    Far { member: usize },
}

impl Over {
    fn link(self, fleet: &Fleet) -> (&Link, String) {
        match self {
            Self::Near { role } => {
                let role = &fleet.roles[role];
                (&role.link, format!("{} {}", role.cluster, role.name))
            }
            Self::Far { member } => {
                let member = &fleet.members[member];
                (&member.requests, member.cluster.name().to_owned())
            }
        }
    }
}

/// A fault and when it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Planned {
    pub(crate) at: Duration,
    pub(crate) fault: Fault,
}

/// When the faults of a part of a run begin.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span<'a> {
    /// Within this time.
    pub(crate) whole: Duration,
    /// Most of them soon after one of these moments, when much happens.
    pub(crate) busy: &'a [Duration],
}

impl Span<'_> {
    fn choose(self, random: &mut SplitMix) -> Duration {
        let below = |random: &mut SplitMix, span: Duration| {
            Duration::from_millis(
                random.below(usize::try_from(span.as_millis()).unwrap_or(usize::MAX)) as u64,
            )
        };
        match self.busy.get(random.below(self.busy.len())) {
            Some(moment) if random.below(4) > 0 => *moment + below(random, BUSY),
            Some(_) | None => below(random, self.whole),
        }
    }
}

/// How long much happens after a busy moment.
const BUSY: Duration = Duration::from_millis(2_500);

/// Chooses the faults of a part of a run.
pub(crate) fn plan(random: &mut SplitMix, fleet: &Fleet, most: usize, span: Span<'_>) -> Vec<Planned> {
    let mut faults: Vec<Planned> = (0..random.below(most + 1))
        .map(|_| Planned {
            at: span.choose(random),
            fault: choose(random, (fleet.members.len(), fleet.roles.len())),
        })
        .collect();
    faults.sort_by_key(|planned| planned.at);
    faults
}

fn choose(random: &mut SplitMix, (members, roles): (usize, usize)) -> Fault {
    let kind = random.below(20);
    let member = random.below(members);
    let lasts = Duration::from_millis(random.below(40_000) as u64 + 100);
    let way = |random: &mut SplitMix| {
        if random.coin() {
            Over::Far { member }
        } else {
            Over::Near {
                role: random.below(roles),
            }
        }
    };
    match kind {
        0 => Fault::CutTunnel { member },
        1 => Fault::Partition { member, lasts },
        2 => Fault::Silence { member, lasts },
        3 => Fault::LoseAnswers {
            member,
            per_mille: 50 + random.below(400),
            lasts,
        },
        4..=6 => Fault::Crash {
            cluster: random.below(members + 1),
            after_steps: 1 + random.below(30) as u64,
            death: if random.below(4) == 0 {
                Death::Kill
            } else {
                Death::PowerLoss
            },
            lasts: lasts / 2,
        },
        7 | 8 => Fault::KillRole {
            role: random.below(roles),
            after_writes: 1 + random.below(6) as u32,
            moment: if random.coin() {
                Moment::Before
            } else {
                Moment::After
            },
        },
        9 => Fault::FullDisk {
            cluster: random.below(members + 1),
            lasts: lasts / 2,
        },
        10 => Fault::DeleteInMember { member },
        12 => Fault::ResetNear {
            role: random.below(roles),
        },
        11 => Fault::LoseNearAnswers {
            role: random.below(roles),
            per_mille: 50 + random.below(400),
            lasts: lasts / 2,
        },
        13 | 14 => Fault::Repeat {
            way: way(random),
            per_mille: 100 + random.below(900),
            lasts,
        },
        15 | 16 => Fault::Reorder {
            way: way(random),
            most: Duration::from_millis(random.below(4_000) as u64 + 50),
            lasts,
        },
        17 | 18 => Fault::SetClock {
            cluster: random.below(members + 1),
            forward_ms: random.below(600_000) as i64 - 300_000,
            lasts,
        },
        _ => Fault::ScaleInMember { member },
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CutTunnel { .. } => f.write_str("the tunnel breaks"),
            Self::Partition { lasts, .. } => write!(f, "cannot reach the parent for {lasts:?}"),
            Self::Silence { lasts, .. } => write!(f, "messages to and from the parent vanish for {lasts:?}"),
            Self::LoseAnswers { per_mille, lasts, .. } => {
                write!(
                    f,
                    "{per_mille} of 1000 answers of the parent get lost for {lasts:?}"
                )
            }
            Self::ResetNear { .. } => f.write_str("a role's connections are reset"),
            Self::LoseNearAnswers { per_mille, lasts, .. } => {
                write!(f, "{per_mille} of 1000 answers to a role get lost for {lasts:?}")
            }
            Self::Crash {
                after_steps,
                death,
                lasts,
                ..
            } => {
                write!(
                    f,
                    "{death:?} within {after_steps} disk steps, back after {lasts:?}"
                )
            }
            Self::KillRole {
                after_writes, moment, ..
            } => {
                write!(f, "a role is to die at its write {after_writes} ({moment:?})")
            }
            Self::FullDisk { lasts, .. } => write!(f, "no disk space for {lasts:?}"),
            Self::Repeat { per_mille, lasts, .. } => {
                write!(
                    f,
                    "{per_mille} of 1000 writes and events arrive twice for {lasts:?}"
                )
            }
            Self::Reorder { most, lasts, .. } => {
                write!(f, "events come up to {most:?} late for {lasts:?}")
            }
            Self::SetClock {
                forward_ms, lasts, ..
            } => {
                write!(f, "the clock is set by {forward_ms} ms for {lasts:?}")
            }
            Self::DeleteInMember { .. } => f.write_str("somebody deletes the Deployment"),
            Self::ScaleInMember { .. } => f.write_str("somebody scales the Deployment"),
        }
    }
}

/// How long a crash waits for a disk step, and a fuse for a write.
const PATIENCE: Duration = Duration::from_secs(15);

impl Fault {
    /// Makes it happen and, for those that last, end.
    pub(crate) async fn happen(self, fleet: &Fleet) {
        let cluster = |index: usize| match index.checked_sub(1) {
            None => &fleet.parent,
            Some(member) => &fleet.members[member].cluster,
        };
        let tell = |name: &str| fleet.trace.fault(name, &self.to_string());
        match self {
            Self::CutTunnel { member } => {
                let member = &fleet.members[member];
                tell(member.cluster.name());
                member.tunnel.reset();
            }
            Self::Partition { member, lasts } => {
                self.cut_off(fleet, member, Link::refuse, lasts).await;
            }
            Self::Silence { member, lasts } => {
                self.cut_off(fleet, member, Link::silence, lasts).await;
            }
            Self::LoseAnswers {
                member,
                per_mille,
                lasts,
            } => {
                let way = Over::Far { member };
                self.meanwhile(fleet, way, |link| link.lose(per_mille), lasts)
                    .await;
            }
            Self::LoseNearAnswers {
                role,
                per_mille,
                lasts,
            } => {
                let way = Over::Near { role };
                self.meanwhile(fleet, way, |link| link.lose(per_mille), lasts)
                    .await;
            }
            Self::Repeat {
                way,
                per_mille,
                lasts,
            } => {
                self.meanwhile(fleet, way, |link| link.repeat(per_mille), lasts)
                    .await;
            }
            Self::Reorder { way, most, lasts } => {
                self.meanwhile(fleet, way, |link| link.hold(most), lasts).await;
            }
            Self::ResetNear { role } => {
                let (link, name) = Over::Near { role }.link(fleet);
                tell(&name);
                link.reset();
            }
            Self::Crash {
                cluster: index,
                after_steps,
                death,
                lasts,
            } => {
                crash(fleet, cluster(index), &self, after_steps, death, lasts).await;
            }
            Self::KillRole {
                role,
                after_writes,
                moment,
            } => {
                let fuse = &fleet.roles[role].fuse;
                kill_at(fuse, after_writes, moment).await;
            }
            Self::FullDisk {
                cluster: index,
                lasts,
            } => {
                tell(cluster(index).name());
                fill_disk(fleet, cluster(index), lasts).await;
            }
            Self::SetClock {
                cluster: index,
                forward_ms,
                lasts,
            } => {
                tell(cluster(index).name());
                set_clock(fleet, cluster(index), forward_ms, lasts).await;
            }
            Self::DeleteInMember { member } => {
                let cluster = by_hand(fleet, member);
                if delete_by_hand(cluster).await.is_ok() {
                    tell(cluster.name());
                }
            }
            Self::ScaleInMember { member } => {
                let cluster = by_hand(fleet, member);
                if scale_by_hand(cluster).await.is_ok() {
                    tell(cluster.name());
                }
            }
        }
    }
}

impl Fault {
    /// Takes a member away from the parent for a while.
    async fn cut_off(&self, fleet: &Fleet, member: usize, cut: fn(&Link), lasts: Duration) {
        let member = &fleet.members[member];
        let name = member.cluster.name();
        fleet.trace.fault(name, &self.to_string());
        let links = [&member.requests, &member.tunnel];
        links.into_iter().for_each(cut);
        tokio::time::sleep(lasts).await;
        links.into_iter().for_each(Link::mend);
        fleet.trace.line(name, "reaches the parent again");
    }

    /// A link is not as it should be for a while.
    async fn meanwhile(&self, fleet: &Fleet, way: Over, worsen: impl FnOnce(&Link), lasts: Duration) {
        let (link, name) = way.link(fleet);
        fleet.trace.fault(&name, &self.to_string());
        worsen(link);
        tokio::time::sleep(lasts).await;
        link.lose(0);
        link.repeat(0);
        link.hold(Duration::ZERO);
    }
}

/// Kills a role at a write, if it writes so much in time.
async fn kill_at(fuse: &Fuse, writes: u32, moment: Moment) {
    fuse.light(writes, moment);
    tokio::time::sleep(PATIENCE).await;
    fuse.disarm();
}

async fn fill_disk(fleet: &Fleet, cluster: &Cluster, lasts: Duration) {
    cluster.disk.set_capacity(Some(cluster.disk.used()));
    tokio::time::sleep(lasts).await;
    cluster.disk.set_capacity(None);
    fleet.trace.line(cluster.name(), "has disk space again");
}

async fn set_clock(fleet: &Fleet, cluster: &Cluster, forward_ms: i64, lasts: Duration) {
    cluster.clock.set_forward(forward_ms);
    tokio::time::sleep(lasts).await;
    cluster.clock.set_forward(-forward_ms);
    fleet.trace.line(cluster.name(), "has the right time again");
}

/// What comes of what a person does to the Deployment is nobody's fault.
fn by_hand(fleet: &Fleet, member: usize) -> &Cluster {
    let cluster = &fleet.members[member].cluster;
    let key = world::deployment(world::APPLICATION, "nginx");
    fleet.trace.with_world(|world| world.by_hand(cluster.name(), key));
    cluster
}

async fn delete_by_hand(cluster: &Cluster) -> Result<(), kubeio::Error> {
    let options = kubeio::DeleteOptions::background();
    let client = cluster.administrator();
    client
        .delete(&api::kubernetes::DEPLOYMENTS, Some("web"), "nginx", &options)
        .await
}

async fn scale_by_hand(cluster: &Cluster) -> Result<(), kubeio::Error> {
    let (client, patch) = (cluster.administrator(), json!({"spec": {"replicas": 5}}));
    let deployments = &api::kubernetes::DEPLOYMENTS;
    client
        .patch(deployments, Some("web"), "nginx", None, Patch::Merge, &patch)
        .await
        .map(drop)
}

async fn crash(
    fleet: &Fleet,
    cluster: &Cluster,
    fault: &Fault,
    after_steps: u64,
    death: Death,
    lasts: Duration,
) {
    let (Ok(_dying), Ok(behind)) = (cluster.dying.try_lock(), cluster.door.behind()) else {
        // It dies already; one death at a time is enough.
        return;
    };
    cluster.disk.crash_at(cluster.disk.steps() + after_steps);
    // Without a write in time the power goes between two.
    drop(tokio::time::timeout(PATIENCE, behind.dead.cancelled()).await);
    fleet.trace.fault(cluster.name(), &fault.to_string());
    cluster.die(death);
    tokio::time::sleep(lasts).await;
    // Somebody looks after a machine that is down: it comes back with room.
    cluster.disk.set_capacity(None);
    if let Err(error) = cluster.start().await {
        let error = runtime::Chain(&*error).to_string();
        fleet
            .trace
            .violation(format!("{} does not start again: {error}", cluster.name()));
    }
}

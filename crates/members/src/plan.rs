//! One planning pass over everything that a simulated cluster runs.

use jiff::Timestamp;

use crate::action::Action;
use crate::world::World;
use crate::{
    NodeSpec, budgets, daemonsets, deployments, jobs, kubelet, nodes, replicasets, scheduling, statefulsets,
};

/// How many pods a simulated cluster has at most: it lies in memory, in its parent's process.
const MOST_PODS: usize = 3_000;

/// How many more pods there may be.
#[derive(Debug)]
pub(crate) struct Room(usize);

impl Room {
    fn of(world: &World) -> Self {
        Self(MOST_PODS.saturating_sub(world.pods.len()))
    }

    /// As many of these as there is room for; they take it.
    pub(crate) fn take(&mut self, wanted: usize) -> usize {
        let granted = wanted.min(self.0);
        self.0 -= granted;
        granted
    }
}

/// Why there are fewer pods than are wanted.
pub(crate) fn no_room() -> String {
    format!("a simulated cluster has at most {MOST_PODS} pods")
}

/// The outcome of a pass.
#[derive(Debug, Clone, PartialEq, Default)]
#[must_use]
pub struct Plan {
    /// What to do, in order.
    pub actions: Vec<Action>,
    /// When something falls due by itself, if anything does.
    pub wake_at: Option<Timestamp>,
}

/// Collects what falls due when.
pub(crate) struct Clockwork {
    pub(crate) now: Timestamp,
    wake_at: Option<Timestamp>,
}

impl Clockwork {
    /// Whether `due` has come; if not it is remembered as a time to wake.
    pub(crate) fn is_due(&mut self, due: Timestamp) -> bool {
        if due <= self.now {
            return true;
        }
        self.wake_at = Some(self.wake_at.map_or(due, |wake| wake.min(due)));
        false
    }
}

/// What every controller of a simulated cluster wants done now.
///
/// New names are made of `random`. The same world with the same number asks for the same names, so that what a write
/// did whose answer was lost is not done once more.
pub fn plan(specs: &[NodeSpec], world: &World, now: Timestamp, random: u64) -> Plan {
    let mut actions = Vec::new();
    let text = now.round(jiff::Unit::Second).unwrap_or(now).to_string();
    let mut clockwork = Clockwork { now, wake_at: None };
    nodes::plan(specs, world, &text, &mut actions);
    deployments::plan(world, &text, &mut actions);
    let mut room = Room::of(world);
    replicasets::plan(world, random, &mut room, &mut actions);
    statefulsets::plan(world, &mut room, &mut actions);
    daemonsets::plan(world, random, &mut actions);
    jobs::plan(world, &text, random, &mut room, &mut actions);
    scheduling::plan(world, &mut actions);
    kubelet::plan(world, &mut clockwork, &mut actions);
    budgets::plan(world, &mut clockwork, &mut actions);
    Plan {
        actions,
        wake_at: clockwork.wake_at,
    }
}

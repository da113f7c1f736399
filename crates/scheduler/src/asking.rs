//! The predictions that are under way: decisions that wait for answers hold up no others.

use std::collections::BTreeMap;
use std::time::Duration;

use kubeio::ObjectKey;
use placement::queue::Item;
use placement::{Cluster, ClusterKey, Inventory, Prediction, PredictorArgs};
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};

use crate::predictors::Shared;

/// One decision, from the queue to the binding.
#[derive(Debug, Clone)]
pub(crate) struct Cycle {
    /// What it is about.
    pub(crate) item: Item<ObjectKey>,
    /// When it began, on the scheduler's clock.
    pub(crate) began: Duration,
}

/// What came of one prediction.
pub(crate) struct Asked {
    /// What is to be decided.
    pub(crate) cycle: Cycle,
    /// What was asked about.
    pub(crate) inventory: Inventory,
    /// All answers so far.
    pub(crate) answers: BTreeMap<ClusterKey, Prediction>,
}

/// Predictions by the Subscription that they are for; the newest counts.
pub(crate) struct Asking {
    predictors: Shared,
    tasks: JoinSet<Asked>,
    running: BTreeMap<ObjectKey, AbortHandle>,
}

impl Asking {
    pub(crate) fn new(predictors: Shared) -> Self {
        Self {
            predictors,
            tasks: JoinSet::new(),
            running: BTreeMap::new(),
        }
    }

    /// How many are under way.
    pub(crate) fn len(&self) -> usize {
        self.running.len()
    }

    /// Asks some clusters more.
    pub(crate) fn start(&mut self, mut asked: Asked, args: PredictorArgs, clusters: Vec<Cluster>) {
        self.stop(&asked.cycle.item.key);
        let predictors = self.predictors.clone();
        let key = asked.cycle.item.key.clone();
        let handle = self.tasks.spawn(async move {
            asked
                .answers
                .extend(predictors.ask(&args, &asked.inventory, &clusters).await);
            asked
        });
        self.running.insert(key, handle);
    }

    /// Forgets what is asked for a Subscription: it is decided anew, or not at all.
    pub(crate) fn stop(&mut self, key: &ObjectKey) {
        if let Some(handle) = self.running.remove(key) {
            handle.abort();
        }
    }

    /// The next prediction that has ended; waits for ever while there is none.
    pub(crate) async fn next(&mut self) -> Asked {
        loop {
            match self.tasks.join_next_with_id().await {
                Some(ended) => {
                    if let Some(asked) = self.take(ended) {
                        return asked;
                    }
                }
                None => std::future::pending().await,
            }
        }
    }

    /// A prediction that has ended already.
    pub(crate) fn try_next(&mut self) -> Option<Asked> {
        while let Some(ended) = self.tasks.try_join_next_with_id() {
            if let Some(asked) = self.take(ended) {
                return Some(asked);
            }
        }
        None
    }

    /// One that was stopped has no answer that anybody waits for.
    fn take(&mut self, ended: Result<(Id, Asked), JoinError>) -> Option<Asked> {
        let (id, asked) = match ended {
            Ok(ended) => ended,
            Err(error) => {
                if error.is_panic() {
                    std::panic::resume_unwind(error.into_panic());
                }
                return None;
            }
        };
        let is_newest = self
            .running
            .get(&asked.cycle.item.key)
            .is_some_and(|handle| handle.id() == id);
        if !is_newest {
            return None;
        }
        self.running.remove(&asked.cycle.item.key);
        Some(asked)
    }
}

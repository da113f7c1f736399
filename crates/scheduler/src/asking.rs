//! The predictions that are under way: decisions that wait for answers hold up no others.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kubeio::ObjectKey;
use placement::queue::Item;
use placement::{Cluster, ClusterKey, Inventory, Prediction, PredictorArgs};
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};

use crate::metrics::Metrics;
use crate::predictors::Shared;

/// One decision, from the queue to the binding.
#[derive(Debug, Clone)]
pub(crate) struct Cycle {
    /// What it is about.
    pub(crate) item: Item<ObjectKey>,
    /// When it began, on the scheduler's clock.
    pub(crate) began: Duration,
    /// Where sampling starts, also when it is decided again with the predictors' answers: they are about this sample.
    pub(crate) start: usize,
}

/// What came of one prediction.
pub(crate) struct Asked {
    /// What is to be decided.
    pub(crate) cycle: Cycle,
    /// What was asked about.
    pub(crate) inventory: Arc<Inventory>,
    /// All answers so far.
    pub(crate) answers: BTreeMap<ClusterKey, Prediction>,
}

/// Predictions by the Subscription that they are for; the newest counts.
pub(crate) struct Asking {
    predictors: Shared,
    tasks: JoinSet<Asked>,
    running: BTreeMap<ObjectKey, AbortHandle>,
    metrics: Metrics,
}

impl Asking {
    pub(crate) fn new(predictors: Shared, metrics: Metrics) -> Self {
        Self {
            predictors,
            tasks: JoinSet::new(),
            running: BTreeMap::new(),
            metrics,
        }
    }

    /// Asks some clusters more.
    pub(crate) fn start(&mut self, mut asked: Asked, args: PredictorArgs, clusters: Vec<Arc<Cluster>>) {
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
        self.metrics.predicting(self.running.len());
    }

    /// Forgets what is asked for a Subscription: it is decided anew, or not at all.
    pub(crate) fn stop(&mut self, key: &ObjectKey) {
        if let Some(handle) = self.running.remove(key) {
            handle.abort();
            self.metrics.predicting(self.running.len());
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
        self.metrics.predicting(self.running.len());
        Some(asked)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::{Request, Response};
    use http_body_util::Full;
    use kubeio::{BoxError, Client};

    use super::*;
    use crate::predictors::Predictors;

    #[tokio::test(start_paused = true)]
    async fn counts_what_is_under_way_however_it_ends() {
        let service = tower::service_fn(|_: Request<Full<Bytes>>| {
            std::future::pending::<Result<Response<Full<Bytes>>, BoxError>>()
        });
        let metrics = Metrics::default();
        let mut asking = Asking::new(
            Arc::new(Predictors::new(
                &Client::from_service(service),
                crate::direct::DirectAccess::default(),
            )),
            metrics.clone(),
        );
        let key = ObjectKey::new("ns", "app");
        let asked = || Asked {
            cycle: Cycle {
                item: Item {
                    key: key.clone(),
                    priority: 0,
                    attempts: 0,
                },
                began: Duration::ZERO,
                start: 0,
            },
            inventory: Arc::default(),
            answers: BTreeMap::new(),
        };
        let counts = |expected: usize| {
            let line = format!("clusternet_scheduler_scheduler_goroutines{{work=\"predict\"}} {expected}\n");
            assert!(metrics.render().contains(&line), "{line} {}", metrics.render());
        };
        asking.start(asked(), PredictorArgs::default(), Vec::new());
        counts(1);
        asking.start(asked(), PredictorArgs::default(), Vec::new());
        counts(1);
        asking.stop(&key);
        counts(0);
        asking.start(asked(), PredictorArgs::default(), Vec::new());
        asking.next().await;
        counts(0);
    }
}

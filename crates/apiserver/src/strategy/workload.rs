//! x
use super::Strategy;
pub(super) static DEPLOYMENT: Strategy = Strategy::PLAIN;
pub(super) static REPLICA_SET: Strategy = Strategy::PLAIN;
pub(super) static STATEFUL_SET: Strategy = Strategy::PLAIN;
pub(super) static DAEMON_SET: Strategy = Strategy::PLAIN;
pub(super) static JOB: Strategy = Strategy::PLAIN;
pub(super) static CRON_JOB: Strategy = Strategy::PLAIN;

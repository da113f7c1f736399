//! x
use super::Strategy;
pub(super) static PERSISTENT_VOLUME: Strategy = Strategy::PLAIN;
pub(super) static PERSISTENT_VOLUME_CLAIM: Strategy = Strategy::PLAIN;
pub(super) static LEASE: Strategy = Strategy::PLAIN;
pub(super) static ROLE: Strategy = Strategy::PLAIN;
pub(super) static ROLE_BINDING: Strategy = Strategy::PLAIN;
pub(super) static STORAGE_CLASS: Strategy = Strategy::PLAIN;
pub(super) static PRIORITY_CLASS: Strategy = Strategy::PLAIN;
pub(super) static AUTOSCALER: Strategy = Strategy::PLAIN;
pub(super) static SIGNING_REQUEST: Strategy = Strategy::PLAIN;

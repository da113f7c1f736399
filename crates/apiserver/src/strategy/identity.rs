//! x
use super::Strategy;
pub(super) static NAMESPACE: Strategy = Strategy::PLAIN;
pub(super) static SECRET: Strategy = Strategy::PLAIN;
pub(super) static SERVICE_ACCOUNT: Strategy = Strategy::PLAIN;
pub(super) static CONFIG_MAP: Strategy = Strategy::PLAIN;

//! x
use super::Strategy;
pub(super) static EVENT: Strategy = Strategy::PLAIN;

//! x
use super::Strategy;
pub(super) static SERVICE: Strategy = Strategy::PLAIN;

//! x
use super::Strategy;
pub(super) static POD: Strategy = Strategy::PLAIN;

//! `/metrics`.

//! tunnel

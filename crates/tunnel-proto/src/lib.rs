//! tunnel-proto

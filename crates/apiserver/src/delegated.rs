//! Running as an aggregated API server under a real parent.

//! The authority and its certificates and keys.

//! Service-account tokens.

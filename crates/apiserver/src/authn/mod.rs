//! Who sends a request: client certificates, service-account tokens, bootstrap tokens.

//! Serving over TLS.

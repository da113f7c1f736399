//! Finalizers.

/// On every application object, and on the credentials that a child publishes.
pub const APP: &str = "apps.clusternet.io/finalizer";
/// On a Manifest or HelmChart that is in use.
pub const FEED_PROTECTION: &str = "apps.clusternet.io/feed-protection";

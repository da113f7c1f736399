//! `proxies.clusternet.io/v1alpha1`: the tunnel and the cluster proxy, served by the hub alone.

use machinery::ApiResource;

/// The API group.
pub const GROUP: &str = "proxies.clusternet.io";
/// Its version.
pub const VERSION: &str = "v1alpha1";
/// The subresource with which a cluster gets what its Descriptions refer to, as discovery names it.
pub const PAYLOADS: &str = "sockets/payloads";
/// Sockets.
pub const SOCKETS: ApiResource = ApiResource::cluster(GROUP, VERSION, "sockets", "Socket");

//! `apps.clusternet.io/v1alpha1`: what is distributed, where to, and how it is changed on the way.

use machinery::ApiResource;

/// The API group.
pub const GROUP: &str = "apps.clusternet.io";
/// Its version.
pub const VERSION: &str = "v1alpha1";
/// Subscriptions.
pub const SUBSCRIPTIONS: ApiResource =
    ApiResource::namespaced(GROUP, VERSION, "subscriptions", "Subscription");
/// Bases.
pub const BASES: ApiResource = ApiResource::namespaced(GROUP, VERSION, "bases", "Base");
/// Descriptions.
pub const DESCRIPTIONS: ApiResource = ApiResource::namespaced(GROUP, VERSION, "descriptions", "Description");
/// FeedInventories.
pub const FEED_INVENTORIES: ApiResource =
    ApiResource::namespaced(GROUP, VERSION, "feedinventories", "FeedInventory");
/// Localizations.
pub const LOCALIZATIONS: ApiResource =
    ApiResource::namespaced(GROUP, VERSION, "localizations", "Localization");
/// Globalizations.
pub const GLOBALIZATIONS: ApiResource =
    ApiResource::cluster(GROUP, VERSION, "globalizations", "Globalization");
/// HelmCharts.
pub const HELM_CHARTS: ApiResource = ApiResource::namespaced(GROUP, VERSION, "helmcharts", "HelmChart");
/// HelmReleases.
pub const HELM_RELEASES: ApiResource = ApiResource::namespaced(GROUP, VERSION, "helmreleases", "HelmRelease");
/// Manifests.
pub const MANIFESTS: ApiResource = ApiResource::namespaced(GROUP, VERSION, "manifests", "Manifest");

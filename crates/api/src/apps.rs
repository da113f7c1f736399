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

mod description;
mod helm;
mod inventory;
mod overrides;
mod subscription;

pub use crate::object::Feed;
pub use description::*;
pub use helm::*;
pub use inventory::*;
pub use overrides::*;
pub use subscription::*;

use crate::crd::{Definition, age, text};
use schemars::{JsonSchema, Schema, SchemaGenerator};

/// An integer of no stated size.
fn plain_integer(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({"type": "integer"})
}

const CATEGORIES: &[&str] = &["clusternet"];

/// What is said about the kinds beside their types.
pub(crate) const DEFINITIONS: &[Definition] = &[
    Definition {
        resource: SUBSCRIPTIONS,
        short_names: &["sub", "subs"],
        categories: CATEGORIES,
        status: true,
        columns: &[age("AGE")],
        schema: Subscription::json_schema,
    },
    Definition {
        resource: BASES,
        short_names: &[],
        categories: CATEGORIES,
        status: false,
        columns: &[age("AGE")],
        schema: Base::json_schema,
    },
    Definition {
        resource: DESCRIPTIONS,
        short_names: &["desc"],
        categories: CATEGORIES,
        status: true,
        columns: &[
            text("DEPLOYER", ".spec.deployer"),
            text("STATUS", ".status.phase"),
            age("AGE"),
        ],
        schema: Description::json_schema,
    },
    Definition {
        resource: FEED_INVENTORIES,
        short_names: &["finv"],
        categories: CATEGORIES,
        status: false,
        columns: &[],
        schema: FeedInventory::json_schema,
    },
    Definition {
        resource: LOCALIZATIONS,
        short_names: &["loc", "local"],
        categories: CATEGORIES,
        status: false,
        columns: &[age("AGE")],
        schema: Localization::json_schema,
    },
    Definition {
        resource: GLOBALIZATIONS,
        short_names: &["glob", "global"],
        categories: CATEGORIES,
        status: false,
        columns: &[age("AGE")],
        schema: Globalization::json_schema,
    },
    Definition {
        resource: HELM_CHARTS,
        short_names: &["chart", "charts"],
        categories: CATEGORIES,
        status: true,
        columns: &[
            text("CHART", ".spec.chart"),
            text("VERSION", ".spec.version"),
            text("REPO", ".spec.repo"),
            text("STATUS", ".status.phase"),
            age("AGE"),
        ],
        schema: HelmChart::json_schema,
    },
    Definition {
        resource: HELM_RELEASES,
        short_names: &["hr"],
        categories: CATEGORIES,
        status: true,
        columns: &[
            text("CHART", ".spec.chart"),
            text("VERSION", ".spec.version"),
            text("REPO", ".spec.repo"),
            text("STATUS", ".status.phase"),
            age("AGE"),
        ],
        schema: HelmRelease::json_schema,
    },
    Definition {
        resource: MANIFESTS,
        short_names: &[],
        categories: CATEGORIES,
        status: false,
        columns: &[age("AGE")],
        schema: Manifest::json_schema,
    },
];

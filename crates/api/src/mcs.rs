//! `multicluster.x-k8s.io/v1alpha1`: services across clusters, as the Multi-Cluster Services API defines them.

use machinery::ApiResource;

/// The API group.
pub const GROUP: &str = "multicluster.x-k8s.io";
/// Its version.
pub const VERSION: &str = "v1alpha1";
/// ServiceExports.
pub const SERVICE_EXPORTS: ApiResource =
    ApiResource::namespaced(GROUP, VERSION, "serviceexports", "ServiceExport");
/// ServiceImports.
pub const SERVICE_IMPORTS: ApiResource =
    ApiResource::namespaced(GROUP, VERSION, "serviceimports", "ServiceImport");

mod types;

pub use types::*;

use crate::crd::{Definition, age, text};
use schemars::JsonSchema;

/// What is said about the kinds beside their types.
pub(crate) const DEFINITIONS: &[Definition] = &[
    Definition {
        resource: SERVICE_EXPORTS,
        short_names: &["svcex"],
        categories: &[],
        status: true,
        columns: &[age("Age")],
        schema: ServiceExport::json_schema,
    },
    Definition {
        resource: SERVICE_IMPORTS,
        short_names: &["svcim"],
        categories: &[],
        status: true,
        columns: &[text("Type", ".spec.type"), text("IP", ".spec.ips"), age("Age")],
        schema: ServiceImport::json_schema,
    },
];

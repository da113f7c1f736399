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

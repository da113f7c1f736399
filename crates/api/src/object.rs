//! The frame of every typed object, and the pieces that several kinds share.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Declares the type of a kind: `apiVersion`, `kind`, `metadata`, and the fields named.
macro_rules! kind {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[serde(rename_all = "camelCase")]
        pub struct $name {
            /// Version of the schema of this object.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub api_version: Option<String>,
            /// Kind of this object.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub kind: Option<String>,
            /// Name, namespace, labels and the rest that every object has.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schemars(schema_with = "crate::crd::metadata")]
            pub metadata: Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta>,
            $($(#[$field_doc])* pub $field: $type,)*
        }
    };
}
pub(crate) use kind;

/// The pattern of a cluster id: a UUID, hex digits in either case.
pub(crate) const UUID: &str = "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$";
/// The pattern of a cluster name.
pub(crate) const CLUSTER_NAME: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?([a-z0-9]([-a-z0-9]*[a-z0-9]))*";

/// A reference to an object that is distributed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Feed {
    /// Kind of the object.
    pub kind: String,
    /// Group and version of the object.
    pub api_version: String,
    /// Namespace of the object; none for a cluster-scoped one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name of the object.
    pub name: String,
}

/// A condition of an object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What the condition is about.
    #[schemars(extend("maxLength" = 316, "pattern" = "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"))]
    pub r#type: String,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// The generation of the object that this was seen on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 0))]
    pub observed_generation: Option<i64>,
    /// When the status last changed.
    pub last_transition_time: Time,
    /// One CamelCase word for programs.
    #[schemars(extend("maxLength" = 1024, "minLength" = 1, "pattern" = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"))]
    pub reason: String,
    /// Details for people.
    #[schemars(extend("maxLength" = 32768))]
    pub message: String,
}

/// Whether a condition holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConditionStatus {
    /// It does.
    True,
    /// It does not.
    False,
    /// Nobody knows.
    Unknown,
}

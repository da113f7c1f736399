//! What a person's commands do, against a hub: templates (apply, get, scale, delete…), clusters and the way into them,
//! and the manifests that prepare a parent or a child. Every command writes to the given output and returns an
//! [`Error`] that says what to do next; parsing command lines is the binary's business.

mod apply;
mod clusters;
mod delete;
mod edit;
mod error;
mod explain;
mod get;
mod hub;
mod join;
mod kubeconfig;
mod leave;
mod manifests;
mod member;
mod objects;
mod output;
mod plan;
mod resolve;
mod rollout;
mod scale;
mod scope;
mod version;
mod words;

pub use apply::{Tracking, apply, create, diff};
pub use clusters::clusters;
pub use delete::{Deletion, Trial, delete};
pub use edit::edit;
pub use error::Error;
pub use explain::explain;
pub use get::{Listing, api_resources, get};
pub use hub::{Hub, Place};
pub use join::{JoinOptions, ParentUrl, join};
pub use kubeconfig::kubeconfig;
pub use leave::{Brought, leave};
pub use manifests::{crds, install, print_rights};
pub use member::{KubectlWords, in_member};
pub use objects::{Source, read};
pub use output::Format;
pub use plan::{Intent, PlanOptions, plan};
pub use resolve::{Selection, Target, Which};
pub use rollout::{Follow, Order, rollout_order, rollout_status};
pub use scale::scale;
pub use scope::Namespaces;
pub use version::version;
pub use words::{Existing, Words, annotate, label};

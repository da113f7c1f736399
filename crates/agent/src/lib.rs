//! The agent in a child: registers with the parent, reports, keeps the tunnel open, and (by the crate `deployer`)
//! applies what its Descriptions ask for.
//!
//! Decisions are pure functions over snapshots ([`identity`], [`registration`], [`report`], …);
//! the shells around them hold the clients. It is given clients and connectors and builds none from files, so the
//! same code runs in a simulation. Deliberately absent: placing, overrides, Helm, the parent's side of registration.

mod config;
mod credentials;
mod error;
mod exchange;
mod exports;
pub mod fuzz;
mod heartbeat;
pub mod identity;
mod leave;
mod metrics;
mod parent;
mod payloads;
mod predictor;
pub mod registration;
mod renewal;
pub mod report;
mod run;
mod sealing_key;
mod session;
mod sight;
mod tunnel;

pub use config::{Config, Gates, LabelPromotion, PredictorConfig};
pub use error::{ConfigError, Error};
pub use leave::{Leaving, Left, leave};
pub use metrics::Metrics;
pub use parent::{Credential, ParentConnector};
pub use run::{Child, run};

//! Roles composed in one process: [`up()`] for people, the simulation for faults. No rules of its own.

mod backup;
mod certificates;
mod data_dir;
mod demo;
mod ensure;
mod error;
pub mod fleet;
mod https_parent;
mod member;
mod parent;
mod plane;
pub mod sim;
mod status;
mod up;

pub use backup::{BACKUP_PATH, Earlier, Origin, Restored, backup, restore};
pub use data_dir::DataDir;
pub use ensure::{Ensured, ensure};
pub use error::Error;
pub use https_parent::HttpsParent;
pub use member::{MemberConfig, start_member};
pub use parent::Role;
pub use plane::Plane;
pub use status::serve_status;
pub use store::archive::Contents;
pub use up::{UpConfig, up};

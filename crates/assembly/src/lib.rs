//! Roles composed in one process: [`up`] for people, the simulation for faults. No rules of its own.

mod data_dir;
mod ensure;
mod error;
pub mod fleet;
mod plane;
mod up;

pub use data_dir::DataDir;
pub use ensure::{Ensured, ensure};
pub use error::Error;
pub use plane::Plane;
pub use up::{UpConfig, up};

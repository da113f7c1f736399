//! Bytes to JSON values and back: YAML as Kubernetes tools read and write it, and Kubernetes' own protobuf form; and
//! OpenAPI documents as protobuf. No I/O and no knowledge of what the objects mean.

pub mod fuzz;
pub mod openapi;
pub mod protobuf;
pub mod yaml;

mod wire;

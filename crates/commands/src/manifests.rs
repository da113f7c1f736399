//! `install`, `crds`, and the rights of a child.

use std::io::Write;

use api::install::{ChildOptions, ParentOptions, child, parent};
use serde_json::Value;

use crate::Error;

pub(crate) fn print(out: &mut (dyn Write + Send), objects: &[Value]) -> Result<(), Error> {
    for object in objects {
        write!(out, "---\n{}", codec::yaml::to_string(object))?;
    }
    Ok(())
}

/// Prints everything that a real parent needs, for `kubectl apply --server-side -f -`.
///
/// # Errors
/// [`Error::Output`].
pub fn install(options: &ParentOptions, out: &mut (dyn Write + Send)) -> Result<(), Error> {
    print(out, &parent(options))
}

/// Prints the custom resource definitions alone.
///
/// # Errors
/// [`Error::Output`].
pub fn crds(out: &mut (dyn Write + Send)) -> Result<(), Error> {
    print(out, &api::crds())
}

/// Prints the namespace, identities and rights of an agent.
///
/// # Errors
/// [`Error::Output`].
pub fn print_rights(options: &ChildOptions, out: &mut (dyn Write + Send)) -> Result<(), Error> {
    print(out, &child(options))
}

//! Where in an object something is, as a chain of borrowed steps: it costs nothing until it is printed.

use std::fmt;

/// A place; prints as `spec.rows[0].map[key]`.
#[derive(Clone, Copy)]
pub(super) enum Place<'a> {
    /// The object itself.
    Root,
    /// A field of a place.
    Field(&'a Place<'a>, &'a str),
    /// An item of a list.
    Index(&'a Place<'a>, usize),
    /// A free key of a map, in brackets.
    Key(&'a Place<'a>, &'a str),
}

impl Place<'_> {
    /// Whether it is `apiVersion` or `kind` of the object itself.
    pub(super) fn is_type(&self) -> bool {
        matches!(self, Self::Field(Place::Root, "apiVersion" | "kind"))
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Self::Root, key) => f.write_str(key),
            Self::Field(parent, key) => write!(f, "{parent}.{key}"),
            Self::Index(parent, index) => write!(f, "{parent}[{index}]"),
            Self::Key(parent, key) => write!(f, "{parent}[{key}]"),
        }
    }
}

//! assembly

//! What tests need and programs don't: a simulated disk that forgets, tears, reorders and fills up.
//!
//! It is a dev-dependency, used from `tests/` folders.

pub mod disk;

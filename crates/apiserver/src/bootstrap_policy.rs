//! The roles and bindings that every control plane starts with.

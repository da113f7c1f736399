//! Whether a user may do something: RBAC.

//! Controllers that belong to the control plane itself: garbage collection, namespaces, service accounts.

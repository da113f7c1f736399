//! Access, token and self-subject reviews.

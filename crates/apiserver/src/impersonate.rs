//! Acting as somebody else, where that is allowed.

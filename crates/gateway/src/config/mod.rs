//! What to serve, and how.

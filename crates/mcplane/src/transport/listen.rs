//! Accepting connections, within limits.

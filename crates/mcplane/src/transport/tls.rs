//! TLS: certificates that are read again when they change.

//! The client of Streamable HTTP, in both eras.

pub mod credentials;

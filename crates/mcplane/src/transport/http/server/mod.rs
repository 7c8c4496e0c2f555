//! The endpoint of Streamable HTTP, in both eras.

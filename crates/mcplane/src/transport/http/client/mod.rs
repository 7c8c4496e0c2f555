//! The client of Streamable HTTP, in both eras.

mod body;
mod connect;
pub mod credentials;
mod pool;
mod verdict;

pub use pool::{CONNECT_TIME_MAX, CONNECTIONS_MAX, IDLE_MAX, IDLE_TIME_MAX, Pool, PoolLimits};
pub use verdict::{LEGACY_VERDICT_TIME, VERDICTS_MAX};

//! The time, as the runtime has it: tests may stop its clock, and timers go by it.

use std::time::Instant;

pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

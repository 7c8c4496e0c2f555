//! The time, as the runtime has it: tests may stop its clock.

use std::time::Instant;

pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

//! What stands in for `crate::sync` of the crates whose files are compiled here.

pub(crate) use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
pub(crate) use loom::sync::{Mutex, MutexGuard};

//! What decides between threads. `tests/races` compiles the files that take it from here once more,
//! with types of the same names that go through every order in which threads may run.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
pub(crate) use std::sync::{Mutex, MutexGuard};

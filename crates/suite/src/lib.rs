//! `mcplane suite`: named benchmarks of prior systems, done again on real code, one command each.
//!
//! A workload is an [`Entry`]: an id, what it shows, and a function that measures it on a [`Stand`] and
//! says what it [`Found`]. What is loaded over a connection is loaded by the lab; what is inside the
//! library and the gateway is driven through the seams that those name for it.
//!
//! ```text
//! ENTRIES ─► choose ─► run, one after another ─► Record ─► results/<run>/{index.json, report.html, cmcp.csv, …}
//! ```
//!
//! # Layout, in reading order
//!
//! * `entry`   — what a workload is, and what it finds
//! * `modules` — the workloads, a file for each module
//! * `run`     — choosing them, and running them one after another
//! * `ops`     — the time of operations that are shorter than a clock's tick
//! * [`broken`] — servers that are broken on purpose: what finds nothing there can find nothing
//! * `record`  — what a run leaves behind, as data and as files; `page` — for people

pub mod broken;
mod entry;
mod modules;
mod ops;
mod page;
mod record;
mod run;

pub use entry::{Entry, Figure, Form, Found, Module, Stand, Verdict};
pub use modules::chaos::{Checked, check};
pub use modules::entries;
pub use record::{Entered, Record};
pub use run::{Asked, Ended, UnknownId, choose, run};

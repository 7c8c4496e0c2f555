//! Child processes that are started, watched and stopped as one group.
//!
//! A [`Command`] becomes a [`Child`] that leads its own process group. Its stdin and stdout are
//! piped, its stderr is drained into a bounded ring. [`Child::stop`] goes through three steps
//! (close stdin, SIGTERM, SIGKILL), and no way of losing a `Child` leaves a process behind:
//! dropping it kills the group, and a guard process kills it when this process dies, even by
//! SIGKILL. On Linux, this includes processes that have left the group.
//!
//! Everything runs inside a tokio runtime whose I/O and time drivers are enabled.
//!
//! # Layout, in reading order
//!
//! * `command` what to start, and starting it
//! * `environment` what a child gets of our own environment
//! * `mask`    what of a command line may be shown
//! * `child`   the running process: pipes, waiting, the stop ladder
//! * `group`   who may signal and who may reap, and the race between the two
//! * `mark`    processes that have left their group and still belong to it
//! * `guard`   no orphan when this process dies
//! * `stderr`  the end of the child's stderr, in a bounded ring
//! * `exit`    how it ended, and the text that tells the user
//! * `error`   why it did not start
//! * `observe` CPU, memory, descriptors and threads of a process tree
//! * `os`      the calls that differ between systems

mod child;
mod command;
mod environment;
mod error;
mod exit;
mod group;
mod guard;
mod mark;
mod mask;
pub mod observe;
mod os;
mod stderr;

pub use child::Child;
pub use command::{Command, Stderr};
pub use environment::INHERITED;
pub use error::SpawnError;
pub use exit::{Exit, ExitReport, Rung};
pub use mask::{mask_urls, mask_words};
pub use os::PIPE_BYTES;
pub use stderr::{STDERR_BYTES_DEFAULT, StderrTail};

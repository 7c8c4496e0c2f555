//! What the processes under test used.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The greatest figures seen, and the last ones.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Resources {
    /// CPU time, user and system, of the whole process tree per call, in nanoseconds.
    pub cpu_ns_per_call: Option<f64>,
    /// The part of it in user mode, in nanoseconds per call.
    pub cpu_user_ns_per_call: Option<f64>,
    /// The part of it in the kernel, in nanoseconds per call.
    pub cpu_system_ns_per_call: Option<f64>,
    /// Context switches of the tree per call.
    pub ctx_switches_per_call: Option<f64>,
    /// Greatest resident memory, in bytes.
    pub rss_bytes_max: Option<u64>,
    /// Resident memory at the end, in bytes.
    pub rss_bytes_end: Option<u64>,
    /// Most open file descriptors.
    pub fds_max: Option<u64>,
    /// Most threads.
    pub threads_max: Option<u64>,
    /// Most processes.
    pub processes_max: Option<u64>,
    /// How often the processes were looked at.
    pub samples: u64,
    /// The part of one core's time, 0 to 1, that looking took: at this side and at every other that
    /// was measured in turns with it.
    #[serde(default)]
    pub observer_cpu_share: Option<f64>,
}

/// What a process tree used in one interval of its side's measured time, the slices joined end to
/// end. Times and counts are sums over the interval, the rest the greatest that was seen in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ResourceSecond {
    /// When it began, in nanoseconds of measured time.
    pub start_ns: u64,
    /// How long it was, in nanoseconds: about a second, or 2, 4, … in a run of more than 600, 1,200,
    /// … seconds. It ends with a look at the processes, and so at no round figure.
    pub length_ns: u64,
    /// CPU time in user mode, in nanoseconds.
    pub cpu_user_ns: u64,
    /// CPU time in the kernel, in nanoseconds.
    pub cpu_system_ns: u64,
    /// Resident memory in bytes.
    pub rss_bytes: u64,
    /// The same with each shared page split among its users, in bytes; `None` where it was not read.
    pub pss_bytes: Option<u64>,
    /// Open file descriptors.
    pub fds: u64,
    /// Threads.
    pub threads: u64,
    /// Processes.
    pub processes: u64,
    /// Context switches: a thread waited, or was taken off the CPU.
    pub ctx_switches: u64,
}

impl ResourceSecond {
    /// CPU time by time: 1 is one core at work throughout.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "nanoseconds below 2^53 are exact")]
    pub fn cores(&self) -> f64 {
        (self.cpu_user_ns + self.cpu_system_ns) as f64 / self.length_ns.max(1) as f64
    }
}

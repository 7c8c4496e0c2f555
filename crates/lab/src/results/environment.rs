//! The machine and the conditions that a result was measured under.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a reader needs to judge a result or to repeat it. A `None` could not be found out.
#[derive(Clone, Debug, JsonSchema, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Environment {
    /// When it was measured, UTC, RFC 3339.
    pub time: String,
    /// The version of mcplane.
    pub mcplane: String,
    /// Whether this program was built with optimisation.
    pub optimised: bool,
    /// The file of this program, which is the generator.
    #[serde(default)]
    pub binary: Option<Binary>,
    /// The command line of this program, without the values of headers.
    pub command: Vec<String>,
    /// The operating system.
    pub os: String,
    /// The architecture.
    pub arch: String,
    /// The kernel's release.
    pub kernel: Option<String>,
    /// The CPU's name.
    pub cpu: Option<String>,
    /// Cores that this process may use.
    pub cores: usize,
    /// The list of those cores, in the kernel's notation.
    pub affinity: Option<String>,
    /// The frequency governor of the first core.
    pub governor: Option<String>,
    /// Where the kernel takes the time from.
    pub clock: Option<String>,
    /// The cgroup's CPU limit (`cpu.max`): quota and period in microseconds.
    pub cgroup_cpu: Option<String>,
    /// The cgroup's memory limit (`memory.max`) in bytes, or `max`.
    pub cgroup_memory: Option<String>,
    /// Load averages over 1, 5 and 15 minutes before the run.
    pub load_before: Option<[f64; 3]>,
    /// Memory of the machine, in bytes.
    pub memory_bytes: Option<u64>,
}

/// The file of a program. Two results are of the same one when its hash is the same.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Binary {
    /// Where it is.
    pub path: String,
    /// The SHA-256 of its bytes, in hexadecimal digits.
    pub sha256: Option<String>,
}

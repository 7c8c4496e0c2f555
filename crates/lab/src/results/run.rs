//! One measurement of one target: what was asked for, what was measured, and the figures.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Arrivals, Binary, Checking, Drifting, Era, Errors, Headroom, Latency, Little, Loop, Open,
    Ratios, ResourceSecond, Resources, Second, Spacing, Think, Transport, Warmup, Words,
};

/// One measurement of one target.
#[derive(Clone, Debug, JsonSchema, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Run {
    /// What was asked for.
    pub plan: PlanInfo,
    /// What was measured.
    pub target: TargetInfo,
    /// What starting it took.
    pub start: StartInfo,
    /// The target's figures.
    pub results: Results,
    /// The floor's figures from the same run, if it was measured.
    pub floor: Option<Results>,
    /// Target by floor.
    pub ratios: Option<Ratios>,
    /// Whether it was the server that was measured, or the generator.
    #[serde(default)]
    pub headroom: Option<Headroom>,
    /// Whether the target's figures drift; empty in a run of less than 30 intervals.
    #[serde(default)]
    pub drift: Vec<Drifting>,
    /// The profiler that the target ran under, if it did: then no figure here is a result.
    #[serde(default)]
    pub profiled: Option<String>,
    /// Whether the user stopped it.
    pub interrupted: bool,
    /// Why the measurement ended early by itself, if it did.
    pub broken: Option<String>,
    /// What the reader should know about these figures.
    pub notes: Vec<String>,
    /// Figures per call that are the same at every run, by name. The lab takes none; other tools may
    /// add some, for the gate to compare.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counts: BTreeMap<String, f64>,
}

impl Run {
    /// Whether every call succeeded and the run went to its end or to the user's.
    #[must_use]
    pub const fn is_clean(&self) -> bool {
        self.results.errors.total() == 0 && self.broken.is_none()
    }

    /// The tool that was called; of a mix, that it was one.
    pub(crate) const fn called(&self) -> &str {
        if self.results.tools.is_empty() { self.plan.tool.as_str() } else { "mix" }
    }

    /// The load in few words.
    pub(crate) fn load(&self) -> String {
        self.plan.load_in(Words::Short)
    }

    /// The load as a number: calls in flight, or due per second, which of random arrivals are a few
    /// more or fewer than meant.
    #[allow(clippy::cast_precision_loss, reason = "a number of calls in flight")]
    pub(crate) fn load_size(&self) -> f64 {
        let is_whole = !self.interrupted && self.broken.is_none();
        let due = self.due_per_s().filter(|_| is_whole);
        match (self.plan.arrivals, due) {
            (None, _) => self.plan.in_flight() as f64,
            (Some(Arrivals { spacing: Spacing::Poisson, .. }), Some(due)) => due,
            (Some(arrivals), _) => arrivals.rate_per_s(),
        }
    }

    /// Calls that were due per second.
    pub(crate) fn due_per_s(&self) -> Option<f64> {
        let length = self.plan.duration_ns.unwrap_or(self.results.wall_ns);
        Some(self.results.open.as_ref()?.due_per_s(Duration::from_nanos(length)))
    }
}

/// What was asked for.
#[derive(Clone, Debug, JsonSchema, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PlanInfo {
    /// When calls begin.
    pub load: Loop,
    /// When calls are meant to begin, in an open loop.
    #[serde(default)]
    pub arrivals: Option<Arrivals>,
    /// How long a user thinks between an answer and the next call, in a closed loop.
    #[serde(default)]
    pub think: Option<Think>,
    /// Calls in flight per session; in an open loop at most so many.
    pub concurrency: usize,
    /// Connections or processes.
    pub sessions: usize,
    /// Calls to make, if that ends the run.
    pub calls: Option<u64>,
    /// Time to measure, in nanoseconds, if that ends the run.
    pub duration_ns: Option<u64>,
    /// Calls thrown away before.
    pub warmup_calls: u64,
    /// Time limit of a call in nanoseconds.
    pub timeout_ns: u64,
    /// Slices in which target and floor alternate.
    pub slices: usize,
    /// How results were compared.
    pub check: Checking,
    /// The core that generator and server were pinned to.
    pub pin: Option<usize>,
    /// The tool that was called.
    pub tool: String,
    /// Its arguments.
    pub args: serde_json::Value,
    /// Whether the lab chose the tool or built the arguments.
    pub chosen: bool,
    /// The kinds of calls of a mix; `tool` and `args` are the first of them.
    #[serde(default)]
    pub mix: Vec<MixedCall>,
    /// The rest.
    #[serde(default)]
    pub knobs: Option<Knobs>,
}

/// What was measured.
#[derive(Clone, Debug, JsonSchema, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TargetInfo {
    /// The command line, the address, or the name of a server in this process.
    pub target: String,
    /// The file that a command's first word was found as; `None` for an address.
    #[serde(default)]
    pub binary: Option<Binary>,
    /// How messages travelled.
    pub transport: Transport,
    /// The server's own name.
    pub server: Option<String>,
    /// The server's own version.
    pub version: Option<String>,
    /// The revision spoken.
    pub revision: String,
    /// The era of that revision.
    pub era: Era,
    /// How many tools it lists.
    pub tools: usize,
    /// Bytes of one call: a line with its newline, an HTTP request with its head, the payload of a
    /// WebSocket frame.
    pub call_bytes: usize,
    /// Bytes of the result that was checked, without its envelope.
    pub result_bytes: usize,
}

/// What starting took, each figure from one observation.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StartInfo {
    /// From before the process was started, or connected to where it runs already, until the
    /// handshake was answered, in nanoseconds. A probe for the era is part of it.
    pub spawn_to_handshake_ns: u64,
    /// From the same moment until the first `tools/list` was answered.
    pub spawn_to_ready_ns: u64,
    /// The very first call of the tool.
    pub first_call_ns: u64,
}

/// What was asked for beside the load and the call, as it was given or by default.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Knobs {
    /// Where random arguments, think times and the order of a mix begin; arrivals have their own.
    pub seed: u64,
    /// Calls to throw away first, if that was to end the warm-up.
    pub warmup_calls: Option<u64>,
    /// Time to do so in nanoseconds, if that was.
    pub warmup_ns: Option<u64>,
    /// How many times that time it may last until latencies show no trend.
    pub warmup_stretch: u32,
    /// Time limit of each step of starting up, in nanoseconds.
    pub start_timeout_ns: u64,
    /// Time to stop after stdin is closed, and again after SIGTERM, in nanoseconds.
    pub stop_grace_ns: u64,
    /// Pause between the calls that tell whether a result changes by itself, in nanoseconds.
    pub settle_ns: u64,
    /// Whether the number of each call was in its arguments and expected back.
    pub distinct: bool,
    /// The handshake: `auto`, `legacy`, `modern`, or a revision.
    pub speak: String,
    /// The floor: `off`, `memory` or `process`.
    pub floor: String,
    /// Whether the floor's process wrote each answer by itself.
    pub plain_floor: bool,
}

/// One kind of call of a mix, as it was asked for.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MixedCall {
    /// The tool.
    pub tool: String,
    /// Its weight beside the others.
    pub weight: f64,
    /// Its arguments as they were written, placeholders and all, or as they were built from the
    /// tool's input schema.
    pub args: serde_json::Value,
    /// Whether its results were to be checked.
    pub check: bool,
}

/// The figures of one side.
#[derive(Clone, Debug, JsonSchema, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Results {
    /// Calls begun.
    pub calls_sent: u64,
    /// Calls that succeeded.
    pub calls_ok: u64,
    /// Calls still in flight when the run was stopped: neither success nor error.
    pub calls_unfinished: u64,
    /// Failures by kind.
    pub errors: Errors,
    /// What the first failure looked like.
    pub first_failure: Option<String>,
    /// Measured time, in nanoseconds: from the first call of each slice to its last answer.
    pub wall_ns: u64,
    /// Successful calls per second of that time.
    pub throughput_per_s: f64,
    /// Calls in flight over that time, averaged.
    pub in_flight_mean: f64,
    /// Most calls in flight at once.
    pub in_flight_max: u64,
    /// Latency of the successful calls, from their intended start: in a closed loop, the actual one.
    pub latency: Latency,
    /// Their histogram: `HdrHistogram` V2, compressed, base64, values in nanoseconds.
    pub latency_histogram: String,
    /// How the schedule was kept, in an open loop.
    #[serde(default)]
    pub open: Option<Open>,
    /// What happened second by second.
    #[serde(default)]
    pub seconds: Vec<Second>,
    /// Whether calls in flight, rate and latency fit together.
    #[serde(default)]
    pub little: Option<Little>,
    /// The part of the measured time, 0 to 1, that the generator's thread was at work; waiting for
    /// an instant is not work.
    #[serde(default)]
    pub generator_cpu_share: Option<f64>,
    /// How the warm-up ended.
    #[serde(default)]
    pub warmup: Option<Warmup>,
    /// The sockets to the server, counted; `None` if there is none.
    #[serde(default)]
    pub sockets: Option<Sockets>,
    /// What the server's processes used.
    pub resources: Resources,
    /// The same second by second.
    #[serde(default)]
    pub resources_seconds: Vec<ResourceSecond>,
    /// The slices that it was measured in.
    pub slices: Vec<Slice>,
    /// Each kind of call by itself, in a mix.
    #[serde(default)]
    pub tools: Vec<ToolResults>,
}

/// What went through the sockets to a server in the measured time, counted below TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Sockets {
    /// Most that were open at once.
    pub open_max: u64,
    /// How many were opened.
    pub opened: u64,
    /// Bytes written to them.
    pub bytes_sent: u64,
    /// Bytes read from them.
    pub bytes_received: u64,
}

impl Sockets {
    /// Adds what came in another slice.
    pub(crate) fn add(&mut self, later: &Self) {
        self.open_max = self.open_max.max(later.open_max);
        self.opened += later.opened;
        self.bytes_sent += later.bytes_sent;
        self.bytes_received += later.bytes_received;
    }
}

/// One slice of one side.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Slice {
    /// Calls that succeeded.
    pub calls_ok: u64,
    /// Measured time in nanoseconds.
    pub wall_ns: u64,
    /// Successful calls per second.
    pub throughput_per_s: f64,
    /// Median latency in nanoseconds.
    pub p50_ns: Option<u64>,
    /// 99th percentile in nanoseconds.
    pub p99_ns: Option<u64>,
    /// CPU of the processes per call, in nanoseconds.
    pub cpu_ns_per_call: Option<f64>,
}

/// The calls of one tool of a mix.
#[derive(Clone, Debug, JsonSchema, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolResults {
    /// The tool.
    pub name: String,
    /// Its weight beside the others.
    pub weight: f64,
    /// How its results were compared.
    pub check: Checking,
    /// Calls begun.
    pub calls_sent: u64,
    /// Calls that succeeded.
    pub calls_ok: u64,
    /// Failures by kind.
    pub errors: Errors,
    /// Latency of the successful calls, from their intended start.
    pub latency: Latency,
    /// Their histogram, in the form of [`super::Results::latency_histogram`].
    pub latency_histogram: String,
}

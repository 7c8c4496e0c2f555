//! Measures MCP servers: load, recording, statistics, reports.
//!
//! The lab shares the wire format with what it measures and nothing else: an instrument built from
//! the thing it measures cannot be trusted.
//!
//! ```text
//! spec ─► plan ─► target (open, list tools) ─► choose ─► validate ─► warm up ─► slices of target and floor ─► report
//! ```
//!
//! Arrows go one way: everything knows `results`, and `results` knows only `stats` and `text`. The
//! engine (`plan` to `run`) fills them; `verdict`, `report` and `lint` read them.
//!
//! # Layout, in reading order
//!
//! * `results`     what was measured, as data: the documents that are written and read
//! * `spec`        what is asked for, on a command line or in a file
//! * `plan`        one load: what to do
//! * `asked`       the plans of a spec
//! * `client`      what is measured, the way to it, and the lab's own small client
//! * `choose`      which tool, which arguments
//! * `load`        phases, sessions, arrivals, calls in flight, what a right answer is
//! * `record`      latencies, errors by kind, calls in flight
//! * `observe`     CPU, memory, descriptors and threads of the processes
//! * `listener`    the process that listens at an address
//! * `floor`       the null responder that everything is compared with
//! * `warm`        calls until latencies are steady
//! * `rig`         a subject that is open: tried, warmed up, closed, reported
//! * `measure`     trials: slices of target and floor in turn
//! * `ladder`      rungs of load, and the knee
//! * `limit`       the highest rate that holds
//! * `cold`        cold starts
//! * `run`         a run from start to end, of one target or of several in turns
//! * `bench`       what `mcplane bench` does with a spec: targets, loads, modes
//! * `contest`     what `mcplane compare` does: targets in turns, A B B A
//! * `stats`       the statistics behind verdicts
//! * `report`      the result for people and for machines
//! * `lint`        figures that cannot be, in our results and in those of others
//! * `verdict`     what a difference, a regression, a drift is
//! * `environment` the machine that it was measured on
//! * `text`        figures and texts of others as people read them
//! * `control`     progress out, the wish to stop in
//! * `live`        what it looks like while it runs
//! * `profile`     a server under a profiler
//! * `pin`         one core for generator and server

mod asked;
mod bench;
mod choose;
mod client;
mod cold;
mod contest;
mod control;
mod environment;
mod error;
mod floor;
mod ladder;
mod limit;
pub mod lint;
mod listener;
pub mod live;
mod load;
mod measure;
mod observe;
mod pin;
mod plan;
pub mod profile;
mod record;
pub mod report;
pub mod results;
mod rig;
mod run;
pub mod spec;
pub mod stats;
mod text;
pub mod verdict;
mod warm;

pub use bench::{BuiltIn, Outcome, bench};
pub use client::{
    Address, MEMORY_BYTES, Memory, Peer, Remote, Served, Speak, Start, Stream, Target, Tool,
    Transport,
};
pub use cold::{Fresh, STARTS_MAX, cold_start};
pub use contest::{ContestError, ContestSpec, contest};
pub use control::{Control, Moment, Stage};
pub use error::Error;
pub use floor::{
    Floor, RelayThreads, Writes, serve_listening, serve_relay, serve_stdio, socket_path,
};
pub use ladder::{RUNGS_MAX, Steps, climb};
pub use limit::find_limit;
pub use load::{NUMBER, Template};
pub use pin::pinned;
pub use plan::{
    CONCURRENCY_MAX, DURATION_MAX, Plan, RATE_PER_S_MAX, SESSIONS_MAX, TOOLS_MAX, open_in_flight,
};
pub use results::{
    Arrivals, ColdStart, Environment, Errors, Found, Ladder, Latencies, Latency, Probe, Report,
    ResourceSecond, Resources, Shape, Spacing, Spread, Step, Think, samples_min,
};
pub use rig::Subject;
pub use run::{run, run_together};
pub use spec::Until;

//! Where the time of the servers of this process goes, stage by stage.
//!
//! Off until [`record`] is called; then every stage of every message costs two reads of the clock.
//! `mcplane bench --profile stages` asks `mcplane fixture` for it; a server of your own does the
//! same with a line at its start and one at its end:
//!
//! ```no_run
//! # use mcplane::Server;
//! # async fn run() -> mcplane::Result<()> {
//! mcplane::stages::record();
//! Server::new("demo", "1.0.0").serve(mcplane::stdio()).await?;
//! for took in mcplane::stages::taken() {
//!     eprintln!("{}: {} times, {} ns in the median", took.stage, took.count, took.p50_ns);
//! }
//! # Ok(())
//! # }
//! ```

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use serde::Serialize;

/// What a server does with a message, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Stage {
    /// A read of a descriptor that brought something, be it a part of a message or many.
    Read,
    /// The scan of a message.
    Parse,
    /// Arguments against their schema, and headers of 2026-07-28 against the body.
    Validate,
    /// From there to the beginning of a handler that waits or blocks. Inline handlers do not queue.
    Queue,
    /// The handler of a tool, a resource, a prompt or a completion.
    Handler,
    /// Its result becomes the text of an answer.
    Encode,
    /// A write to a descriptor, be it a part of an answer or many.
    Write,
}

/// Every stage.
const ALL: [Stage; 7] = [
    Stage::Read,
    Stage::Parse,
    Stage::Validate,
    Stage::Queue,
    Stage::Handler,
    Stage::Encode,
    Stage::Write,
];

/// What a stage took.
#[derive(Clone, Copy, Debug, Serialize)]
#[non_exhaustive]
pub struct Taken {
    /// Which one.
    pub stage: Stage,
    /// How often.
    pub count: u64,
    /// All of it together, in nanoseconds.
    pub total_ns: u64,
    /// The median in nanoseconds, at most 1/16 off.
    pub p50_ns: u64,
    /// The 99th percentile, likewise.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

impl std::fmt::Display for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Read => "read",
            Self::Parse => "parse",
            Self::Validate => "validate",
            Self::Queue => "queue",
            Self::Handler => "handler",
            Self::Encode => "encode",
            Self::Write => "write",
        })
    }
}

static IS_ON: AtomicBool = AtomicBool::new(false);
static CLOCKS: [Clock; ALL.len()] = [const { Clock::new() }; ALL.len()];

/// Records from now on, in the whole process.
pub fn record() {
    IS_ON.store(true, Ordering::Relaxed);
}

/// What every stage took so far; stages that never came are left out.
#[must_use]
pub fn taken() -> Vec<Taken> {
    ALL.iter().zip(&CLOCKS).filter_map(|(stage, clock)| clock.taken(*stage)).collect()
}

/// The time, if stages are recorded.
#[inline]
pub(crate) fn now() -> Option<Instant> {
    IS_ON.load(Ordering::Relaxed).then(Instant::now)
}

impl Stage {
    /// Records this stage, begun then.
    #[inline]
    pub(crate) fn since(self, start: Option<Instant>) {
        if let (Some(start), Some(clock)) = (start, CLOCKS.get(self as usize)) {
            clock.add(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
        }
    }

    /// Records what `work` takes as this stage.
    #[inline]
    pub(crate) fn of<T>(self, work: impl FnOnce() -> T) -> T {
        let start = now();
        let value = work();
        self.since(start);
        value
    }
}

/// Steps of an octave.
const STEPS: usize = 8;

/// Times, counted in buckets: eight for each factor of two.
struct Clock {
    buckets: [AtomicU64; 64 * STEPS],
    total_ns: AtomicU64,
    max_ns: AtomicU64,
}

impl Clock {
    const fn new() -> Self {
        Self {
            buckets: [const { AtomicU64::new(0) }; 64 * STEPS],
            total_ns: AtomicU64::new(0),
            max_ns: AtomicU64::new(0),
        }
    }

    fn add(&self, ns: u64) {
        if let Some(bucket) = self.buckets.get(bucket(ns)) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        self.total_ns.fetch_add(ns, Ordering::Relaxed);
        self.max_ns.fetch_max(ns, Ordering::Relaxed);
    }

    fn taken(&self, stage: Stage) -> Option<Taken> {
        let counts: Vec<u64> =
            self.buckets.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        let count = counts.iter().sum::<u64>();
        let max_ns = self.max_ns.load(Ordering::Relaxed);
        let quantile = |percent: u64| {
            let rank = (count * percent).div_ceil(100);
            let mut seen = 0;
            let at = counts.iter().position(|count| {
                seen += count;
                seen >= rank
            });
            at.map_or(0, middle_ns).min(max_ns)
        };
        (count > 0).then(|| Taken {
            stage,
            count,
            total_ns: self.total_ns.load(Ordering::Relaxed),
            p50_ns: quantile(50),
            p99_ns: quantile(99),
            max_ns,
        })
    }
}

/// Its octave and which eighth of that.
#[allow(clippy::cast_possible_truncation, reason = "less than 512")]
const fn bucket(ns: u64) -> usize {
    if ns < STEPS as u64 {
        return ns as usize;
    }
    let octave = ns.ilog2();
    (octave as usize - 2) * STEPS + ((ns >> (octave - 3)) as usize - STEPS)
}

/// The middle of a bucket.
const fn middle_ns(bucket: usize) -> u64 {
    if bucket < STEPS {
        return bucket as u64;
    }
    let (octave, step) = (bucket / STEPS + 2, (bucket % STEPS + STEPS) as u64);
    let width = 1 << (octave - 3);
    step * width + width / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_an_eighth_of_its_octave() {
        for ns in (0..10_000).chain([1 << 20, (1 << 40) + 12_345, u64::MAX >> 1]) {
            let middle = middle_ns(bucket(ns));
            assert!(middle.abs_diff(ns) <= ns / 16, "{ns} became {middle}");
        }
        assert!(bucket(u64::MAX) < 64 * STEPS);
    }

    #[test]
    fn quantiles_are_within_a_sixteenth() {
        let clock = Clock::new();
        assert!(clock.taken(Stage::Queue).is_none());
        (1..=1000).for_each(|us| clock.add(us * 1000));
        let taken = clock.taken(Stage::Queue).unwrap();
        let near = |found: u64, ns: u64| found.abs_diff(ns) <= ns / 16;
        assert!(near(taken.p50_ns, 500_000) && near(taken.p99_ns, 990_000), "{taken:?}");
        assert_eq!((taken.count, taken.max_ns, taken.total_ns), (1000, 1_000_000, 500_500_000));
    }
}

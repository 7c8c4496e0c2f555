//! The highest rate that holds: doubled until a condition fails, then bisected.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::control::Control;
use crate::error::Error;
use crate::floor::Floor;
use crate::plan::{Plan, RATE_PER_S_MAX, Until};
use crate::report::{Results, Run};
use crate::rig::{Rig, Rung};
use crate::run::{Entry, on_generator};
use crate::target::Target;
use crate::verdict::{Assertions, Checked, Facts};

/// The interval between the highest rate that held and the lowest that did not, as a ratio.
const CLOSE: f64 = 1.03;

/// The part of the rate that a server must answer: one that answers less lets calls pile up, which
/// breaks every other condition in the end.
const KEEPS_UP: f64 = 0.97;

/// Most probes, repeated ones among them.
const PROBES_MAX: usize = 48;

/// The lowest rate that is tried, in calls per second.
const RATE_PER_S_MIN: f64 = 0.1;

/// The part of the first rate at which calls do not meet: a condition that fails there, while the
/// server keeps up, fails at every rate.
const IDLE: f64 = 1.0 / 8.0;

/// Longest probe. A percentile that needs more calls than this brings cannot be told.
const PROBE_MAX: Duration = Duration::from_secs(60);

/// Calls of a probe beyond the least that a percentile needs.
const SAMPLES_MORE: f64 = 1.1;

/// What a search came to.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Found {
    /// The conditions, as they were written.
    pub conditions: String,
    /// The highest rate that held, in calls per second; `None` if none did.
    pub limit_per_s: Option<f64>,
    /// The lowest rate that did not, in calls per second; `None` if all did.
    pub fails_at_per_s: Option<f64>,
    /// The conditions that failed there, with what was measured.
    pub failed: Vec<Checked>,
    /// Why the search ended before the two were within 3 %, if it did.
    pub unfinished: Option<String>,
    /// Every probe, in order.
    pub probes: Vec<Probe>,
}

/// One measurement at one rate.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Probe {
    /// Calls per second.
    pub rate_per_s: f64,
    /// How long calls were begun for, in nanoseconds.
    pub duration_ns: u64,
    /// Whether every condition held; `None` if one cannot be told.
    pub holds: Option<bool>,
    /// Each condition, and at the end that the server kept up.
    pub checked: Vec<Checked>,
}

/// Finds the highest rate at which `conditions` hold, and with them that the server keeps up. Each
/// probe lasts as long as the plan says, or longer where a percentile needs more calls; one that
/// fails is repeated once before it counts. The runs are those at the highest rate that held and at
/// the lowest that did not. Blocks like [`crate::run()`].
///
/// # Errors
/// As those of [`crate::run()`].
pub fn find_limit(
    plan: &Plan,
    conditions: &Assertions,
    target: &Target,
    control: &Arc<Control>,
) -> Result<(Vec<Run>, Found), Error> {
    let plan = plan.at(1.0);
    plan.validate()?;
    let entry = Entry { target: target.clone(), floor: Floor::Off, speak: plan.speak };
    on_generator(&plan, control, async |affinity| {
        let cold = Plan { warmup: Until::Calls(0), ..plan.clone() };
        let rig = Rig::open(&cold, &entry, control, affinity).await?;
        let mut probing =
            Probing { plan: &plan, conditions, rig, rungs: [None, None], all: Vec::new() };
        let mut search = Search::from(probing.gauge().await);
        let unfinished = probing.search(&mut search).await;
        let rungs: Vec<_> = probing.rungs.into_iter().flatten().collect();
        let failed = probing.all.iter().rev().find(|probe| Some(probe.rate_per_s) == search.fails);
        let found = Found {
            conditions: conditions.to_string(),
            limit_per_s: search.holds,
            fails_at_per_s: search.fails,
            failed: failed.map(Probe::failed).unwrap_or_default(),
            unfinished,
            probes: probing.all,
        };
        Ok((probing.rig.close(rungs).await?, found))
    })?
}

impl Probe {
    fn of(rate_per_s: f64, length: Duration, results: &Results, conditions: &Assertions) -> Self {
        let mut checked = conditions.check(&Facts::from(results));
        checked.push(keeps_up(rate_per_s, length, results));
        // Enough calls were due: a percentile without samples has failed calls in their place.
        let enough = rate_per_s * length.as_secs_f64() >= conditions.samples_min() as f64;
        let holds = if checked.iter().any(|checked| checked.holds == Some(false)) {
            Some(false)
        } else if checked.iter().all(|checked| checked.holds == Some(true)) {
            Some(true)
        } else {
            (enough && results.errors.total() > 0).then_some(false)
        };
        Self { rate_per_s, duration_ns: crate::run::ns(length), holds, checked }
    }

    /// Whether the server did, which is the last condition.
    fn keeps_up(&self) -> bool {
        self.checked.last().is_some_and(|checked| checked.holds == Some(true))
    }

    fn failed(&self) -> Vec<Checked> {
        self.checked.iter().filter(|checked| checked.holds != Some(true)).cloned().collect()
    }
}

/// Whether the server answered as many calls as were due, but for the last answer's time: of random
/// arrivals a few more or fewer than the rate says.
#[allow(clippy::cast_precision_loss, reason = "a rate needs three digits")]
fn keeps_up(rate_per_s: f64, length: Duration, results: &Results) -> Checked {
    let tail = results.open.as_ref().and_then(|open| open.latency_raw.min_ns).unwrap_or_default();
    let seconds = results.wall_ns.saturating_sub(tail).max(1) as f64 / 1e9;
    let answered = results.calls_ok as f64 / seconds;
    let due = results.open.as_ref().map(|open| open.calls_due as f64 / length.as_secs_f64());
    let due = due.unwrap_or(rate_per_s);
    Checked {
        text: format!("throughput>={:.0}% of the rate", 100.0 * KEEPS_UP),
        measured: format!("{answered:.1}/s, {:.1} %", 100.0 * answered / due),
        holds: Some(answered >= KEEPS_UP * due),
    }
}

struct Probing<'a> {
    plan: &'a Plan,
    conditions: &'a Assertions,
    rig: Rig,
    /// At the highest rate that held, and at the lowest that did not.
    rungs: [Option<Rung>; 2],
    all: Vec<Probe>,
}

impl Probing<'_> {
    /// The warm-up, one call in flight per session, which shows a rate that the server can bear.
    async fn gauge(&mut self) -> f64 {
        let until = match self.plan.warmup {
            Until::Calls(0) | Until::Elapsed(Duration::ZERO) => Until::Calls(3),
            until => until,
        };
        let plan = Plan { concurrency: 1, arrivals: None, until, ..self.plan.clone() };
        let mut rung = Rung::new(plan, 1);
        self.rig.visit(&mut rung, (0, 1), (0, 1)).await;
        rung.results().throughput_per_s
    }

    /// Gives the reason why it ended early, if it did.
    async fn search(&mut self, search: &mut Search) -> Option<String> {
        while let Some(rate) = search.next() {
            let (mut rung, mut probe) = self.probe(rate).await;
            if probe.holds == Some(false) && !self.is_over(&rung) {
                (rung, probe) = self.probe(rate).await;
            }
            let idle = rate <= IDLE * search.start && probe.keeps_up();
            let (holds, over) = (probe.holds, self.is_over(&rung));
            let stopped = over && !rung.is_broken();
            if let (Some(holds), false) = (holds, stopped) {
                search.tell(rate, holds);
                let [held, failed] = &mut self.rungs;
                *(if holds { held } else { failed }) = Some(rung);
            } else if self.rungs.iter().all(Option::is_none) {
                // Something to report.
                self.rungs = [Some(rung), None];
            }
            if over {
                return Some("the server broke, or the search was stopped".to_owned());
            }
            if holds.is_none() {
                let what = self.all.last().map(Probe::failed).unwrap_or_default();
                let what: Vec<_> = what.iter().map(|checked| checked.text.as_str()).collect();
                return Some(format!(
                    "at {rate:.1} calls/s it cannot be told: {}",
                    what.join(", ")
                ));
            }
            if holds == Some(false) && idle {
                return None;
            }
            if self.all.len() >= PROBES_MAX {
                return Some(format!("{PROBES_MAX} probes were made"));
            }
        }
        (search.fails.is_none()).then(|| "no rate that can be made is too high".to_owned())
    }

    async fn probe(&mut self, rate: f64) -> (Rung, Probe) {
        let least = match self.plan.until {
            Until::Elapsed(time) => time.as_secs_f64(),
            #[allow(clippy::cast_precision_loss, reason = "a rough number of seconds")]
            Until::Calls(calls) => calls as f64 / rate,
        };
        let samples = SAMPLES_MORE * self.conditions.samples_min() as f64 / rate;
        let seconds = least.max(samples).min(PROBE_MAX.as_secs_f64().max(least));
        let length = Duration::try_from_secs_f64(seconds).unwrap_or(PROBE_MAX).min(PROBE_MAX);
        let plan = Plan { until: Until::Elapsed(length), ..self.plan.at(rate) };
        let mut rung = Rung::new(plan, 1);
        self.rig.visit(&mut rung, (0, 1), (0, 1)).await;
        let probe = Probe::of(rate, length, &rung.results(), self.conditions);
        self.all.push(probe.clone());
        (rung, probe)
    }

    fn is_over(&self, rung: &Rung) -> bool {
        self.rig.is_over(std::slice::from_ref(rung))
    }
}

/// Which rates are known, and which is the next to try.
#[derive(Clone, Copy, Debug)]
struct Search {
    start: f64,
    holds: Option<f64>,
    fails: Option<f64>,
}

impl Search {
    /// Begins at half of a rate that was reached with one call in flight.
    fn from(reached: f64) -> Self {
        let start = (reached / 2.0).clamp(RATE_PER_S_MIN, RATE_PER_S_MAX);
        Self { start, holds: None, fails: None }
    }

    fn next(&self) -> Option<f64> {
        match (self.holds, self.fails) {
            (None, None) => Some(self.start),
            (Some(holds), None) => Some(2.0 * holds).filter(|rate| *rate <= RATE_PER_S_MAX),
            (None, Some(fails)) => Some(fails / 2.0).filter(|rate| *rate >= RATE_PER_S_MIN),
            (Some(holds), Some(fails)) => (fails > CLOSE * holds).then(|| (holds * fails).sqrt()),
        }
    }

    fn tell(&mut self, rate: f64, holds: bool) {
        *(if holds { &mut self.holds } else { &mut self.fails }) = Some(rate);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches for a capacity; gives what was found and how many rates were tried.
    fn search(reached: f64, capacity: f64) -> (Search, usize) {
        let (mut search, mut tried) = (Search::from(reached), 0);
        while let Some(rate) = search.next() {
            search.tell(rate, rate <= capacity);
            tried += 1;
            assert!(tried < PROBES_MAX / 2);
        }
        (search, tried)
    }

    #[test]
    fn a_capacity_is_found_within_three_percent() {
        for (reached, capacity) in
            [(200.0, 200.0), (200.0, 1600.0), (1e4, 37.0), (30.0, 3e4), (1.0, 0.3), (0.0, 5.0)]
        {
            let (found, tried) = search(reached, capacity);
            let (holds, fails) = (found.holds.unwrap(), found.fails.unwrap());
            assert!(holds <= capacity && fails > capacity && fails / holds <= CLOSE);
            assert!(tried <= 20, "{tried} for {capacity}");
        }
    }

    #[test]
    fn what_never_fails_and_what_never_holds_ends() {
        let (all, tried) = search(1e3, f64::INFINITY);
        assert!(all.holds > Some(RATE_PER_S_MAX / 2.0) && all.fails.is_none() && tried < 15);
        let (none, tried) = search(1e3, 0.0);
        assert!(none.holds.is_none() && none.fails < Some(2.0 * RATE_PER_S_MIN) && tried < 15);
    }
}

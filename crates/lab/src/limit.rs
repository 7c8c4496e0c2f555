//! The highest rate that holds: doubled until a condition fails, then bisected.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::client::Target;
use crate::control::Control;
use crate::error::Error;
use crate::floor::Floor;
use crate::measure::Trial;
use crate::plan::{Plan, RATE_PER_S_MAX};
use crate::results::{Checked, Found, Probe, Results, Run, Spacing};
use crate::rig::{Rig, Subject};
use crate::run::on_generator;
use crate::spec::Until;
use crate::verdict::{Assertions, Facts};

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

/// Standard deviations by which random arrivals may be fewer than their mean: once in 30,000 probes.
const DEVIATIONS: f64 = 4.0;

/// How many times the latency of a server at rest a call may take when it has come to rest again.
const AT_REST: f64 = 3.0;

/// Added to it, in nanoseconds: what a busy machine takes.
const AT_REST_MORE_NS: f64 = 1e6;

/// Longest time for a server to come to rest after a rate that was too high.
const REST_MAX: Duration = Duration::from_secs(30);

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
    let subject = Subject { target: target.clone(), floor: Floor::Off, speak: plan.speak };
    on_generator(&plan, control, async |affinity| {
        let cold = Plan { warmup: Until::Calls(0), ..plan.clone() };
        let rig = Rig::open_warm(&cold, &subject, control, affinity).await?;
        let (mut probing, mut search) = Probing::begin(&plan, conditions, rig).await;
        let unfinished = probing.search(&mut search).await;
        let [held, failed] = probing.best;
        let rate = |(_, probe): &(Trial, Probe)| probe.rate_per_s;
        let found = Found {
            conditions: conditions.to_string(),
            limit_per_s: held.as_ref().filter(|_| search.holds.is_some()).map(rate),
            fails_at_per_s: failed.as_ref().map(rate),
            failed: failed.as_ref().map(|(_, probe)| probe.failed()).unwrap_or_default(),
            unfinished,
            probes: probing.all,
        };
        let trials = held.into_iter().chain(failed).map(|(trial, _)| trial).collect();
        Ok((Box::pin(probing.rig.finish_all(trials)).await?, found))
    })?
}

impl Probe {
    fn of(rate_per_s: f64, length: Duration, results: &Results, conditions: &Assertions) -> Self {
        let mut checked = conditions.check(&Facts::from(results));
        checked.push(keeps_up(length, results));
        // Enough calls were due: a percentile without samples has failed calls in their place.
        let enough = rate_per_s * length.as_secs_f64() >= conditions.samples_min() as f64;
        let holds = if checked.iter().any(|checked| checked.holds == Some(false)) {
            Some(false)
        } else if checked.iter().all(|checked| checked.holds == Some(true)) {
            Some(true)
        } else {
            (enough && results.errors.total() > 0).then_some(false)
        };
        Self { rate_per_s, duration_ns: crate::record::ns(length), holds, checked }
    }

    /// Whether the server did, which is the last condition.
    fn keeps_up(&self) -> bool {
        self.checked.last().is_some_and(|checked| checked.holds == Some(true))
    }

    fn failed(&self) -> Vec<Checked> {
        self.checked.iter().filter(|checked| checked.holds != Some(true)).cloned().collect()
    }
}

/// Whether the server answered calls as fast as they were due, but for the last answer's time.
#[allow(clippy::cast_precision_loss, reason = "a rate needs three digits")]
fn keeps_up(length: Duration, results: &Results) -> Checked {
    let open = results.open.as_ref();
    let tail = open.and_then(|open| open.latency_raw.min_ns).unwrap_or_default();
    let time = Duration::from_nanos(results.wall_ns.saturating_sub(tail)).max(length);
    let answered = results.calls_ok as f64 / time.as_secs_f64();
    let due = open.map_or(f64::INFINITY, |open| open.due_per_s(length));
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
    best: [Option<(Trial, Probe)>; 2],
    all: Vec<Probe>,
    /// Nanoseconds that a call takes when nothing else is to be done.
    idle_ns: f64,
    /// Whether the server was, when it was last asked.
    is_at_rest: bool,
}

impl<'a> Probing<'a> {
    /// The warm-up, one call in flight per session, which shows a rate that the server can bear.
    async fn begin(plan: &'a Plan, conditions: &'a Assertions, rig: Rig) -> (Self, Search) {
        let (best, all) = ([None, None], Vec::new());
        let mut probing = Self { plan, conditions, rig, best, all, idle_ns: 0.0, is_at_rest: true };
        let until = match plan.warmup {
            Until::Calls(0) | Until::Elapsed(Duration::ZERO) => Until::Calls(3),
            until => until,
        };
        let seen = probing.one_at_a_time(until).await;
        probing.idle_ns = seen.latency.mean_ns.unwrap_or_default();
        (probing, Search::from(seen.throughput_per_s))
    }

    async fn one_at_a_time(&mut self, until: Until) -> Results {
        let plan = Plan { concurrency: 1, arrivals: None, until, ..self.plan.clone() };
        let mut trial = Trial::new(plan, 1);
        self.rig.visit(&mut trial, (0, 1), (0, 1)).await;
        trial.target.results()
    }

    /// Waits until the server has done, or thrown away, what a rate that was too high has left with
    /// it: calls that nobody waits for any more would be in the way of the next probe. Returns whether
    /// it has.
    #[allow(clippy::cast_precision_loss, reason = "a latency needs three digits")]
    async fn rest(&mut self) -> bool {
        let (began, sessions) = (Instant::now(), self.plan.sessions as u64);
        let at_rest_ns = AT_REST * self.idle_ns + AT_REST_MORE_NS;
        while !self.rig.is_over(&[]) {
            let seen = self.one_at_a_time(Until::Calls(sessions)).await;
            let slowest = seen.latency.max_ns.filter(|_| seen.errors.total() == 0);
            if slowest.is_some_and(|ns| ns as f64 <= at_rest_ns) {
                break;
            }
            if began.elapsed() > REST_MAX {
                return false;
            }
        }
        true
    }

    /// Returns the reason why it ended early, if it did.
    async fn search(&mut self, search: &mut Search) -> Option<String> {
        while let Some(rate) = search.next() {
            let (mut trial, mut probe) = self.probe(rate).await;
            if probe.holds == Some(false) && self.is_at_rest && !self.is_over(&trial) {
                (trial, probe) = self.probe(rate).await;
            }
            let idle = rate <= IDLE * search.start && probe.keeps_up();
            let (holds, over) = (probe.holds, self.is_over(&trial));
            if let Some(holds) = holds {
                search.tell(rate, holds);
                let [held, failed] = &mut self.best;
                *(if holds { held } else { failed }) = Some((trial, probe));
            } else if self.best.iter().all(Option::is_none) {
                // Something to report.
                self.best = [Some((trial, probe)), None];
            }
            if over {
                return Some("the server broke, or the search was stopped".to_owned());
            }
            if !self.is_at_rest {
                let seconds = REST_MAX.as_secs();
                return Some(format!(
                    "{seconds} s after {rate:.1} calls/s it was not at rest again"
                ));
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

    async fn probe(&mut self, rate: f64) -> (Trial, Probe) {
        let length = self.length(rate);
        let plan = Plan { until: Until::Elapsed(length), ..self.plan.at(rate) };
        let mut trial = Trial::new(plan, 1);
        self.rig.visit(&mut trial, (0, 1), (0, 1)).await;
        let results = trial.target.results();
        let mut probe = Probe::of(rate, length, &results, self.conditions);
        if self.rig.is_over(&[]) {
            // A part of it says nothing.
            probe.holds = None;
        } else if let (true, false, Some(open)) = (self.is_random(), trial.is_over(), results.open)
        {
            probe.rate_per_s = open.due_per_s(length);
        }
        self.all.push(probe.clone());
        if probe.holds == Some(false) && !trial.is_over() {
            self.is_at_rest = self.rest().await;
        }
        (trial, probe)
    }

    /// How long a probe lasts.
    #[allow(clippy::cast_precision_loss, reason = "a rough number of seconds")]
    fn length(&self, rate: f64) -> Duration {
        let least = match self.plan.until {
            Until::Elapsed(time) => time.as_secs_f64(),
            Until::Calls(calls) => calls as f64 / rate,
        };
        let samples = self.conditions.samples_min() as f64;
        let samples = match self.is_random() {
            // The mean m with m - 4√m of that.
            true => (DEVIATIONS / 2.0 + (DEVIATIONS * DEVIATIONS / 4.0 + samples).sqrt()).powi(2),
            false => SAMPLES_MORE * samples,
        };
        let seconds = least.max(samples / rate).min(PROBE_MAX.as_secs_f64().max(least));
        Duration::try_from_secs_f64(seconds).unwrap_or(PROBE_MAX).min(PROBE_MAX)
    }

    fn is_random(&self) -> bool {
        self.plan.arrivals.is_some_and(|arrivals| arrivals.spacing == Spacing::Poisson)
    }

    fn is_over(&self, trial: &Trial) -> bool {
        self.rig.is_over(std::slice::from_ref(trial))
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

    /// Searches for a capacity; returns what was found and how many rates were tried.
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

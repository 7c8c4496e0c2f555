//! A result against a baseline: what is the same at every run first, then what a clock says.

use serde::Serialize;

use super::{Assertions, Group, Recorded, TOO_FEW};
use crate::results::{Checked, Metric};
use crate::stats::Interval;

/// What a result may lose against its baseline. Fractions: 0.1 is 10 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Profile {
    /// Its name.
    pub name: &'static str,
    /// Most that a count (instructions, allocations, syscalls, bytes) may rise.
    pub count_rise: f64,
    /// Most that the throughput may fall.
    pub throughput_fall: Option<f64>,
    /// Most that the median may rise.
    pub p50_rise: Option<f64>,
    /// Most that the 95th percentile may rise.
    pub p95_rise: Option<f64>,
    /// Most that the 99th percentile may rise.
    pub p99_rise: Option<f64>,
    /// Most that the greatest resident memory may rise.
    pub rss_rise: Option<f64>,
    /// Most calls that may fail.
    pub error_rate_max: f64,
}

const DEFAULT: Profile = Profile {
    name: "default",
    count_rise: 0.01,
    throughput_fall: Some(0.10),
    p50_rise: None,
    p95_rise: Some(0.10),
    p99_rise: None,
    rss_rise: Some(0.20),
    error_rate_max: 0.0,
};

const CMCP_INLINE: Profile = Profile {
    name: "cmcp-inline",
    throughput_fall: Some(0.25),
    p95_rise: None,
    p99_rise: Some(0.40),
    rss_rise: None,
    ..DEFAULT
};

/// The limits that have names. `default` is mcplane's; `erlmcp` and the three of `cmcp` are those that
/// these systems state for themselves.
pub const PROFILES: [Profile; 5] = [
    DEFAULT,
    Profile { name: "erlmcp", error_rate_max: 0.0005, ..DEFAULT },
    CMCP_INLINE,
    // A wall time that rises by 20 % is a throughput that falls by a sixth.
    Profile { name: "cmcp-pool", throughput_fall: Some(1.0 / 6.0), p99_rise: None, ..CMCP_INLINE },
    Profile { name: "cmcp-http", throughput_fall: Some(0.30), ..CMCP_INLINE },
];

/// What became of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[allow(clippy::exhaustive_enums, reason = "each has its exit code")]
pub enum Outcome {
    /// It holds.
    Pass,
    /// The interval is too wide, or a figure is missing.
    CannotTell,
    /// It does not hold.
    Regression,
}

/// One limit and what was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// Of which run.
    pub run: String,
    /// The figure, or the assertion.
    pub what: String,
    /// The baseline's figure with its unit.
    pub baseline: String,
    /// The result's figure with its unit.
    pub result: String,
    /// Result by baseline, with its 95 % interval where it has one.
    pub ratio: Option<Interval>,
    /// The limit in words.
    pub limit: String,
    /// What became of it.
    pub outcome: Outcome,
    /// What the interval is over, or why it cannot be told.
    pub note: String,
}

/// Every finding.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Gate {
    /// The name of the profile.
    pub profile: &'static str,
    /// The worst of all outcomes.
    pub outcome: Outcome,
    /// Counts first, then figures of the clock, then assertions.
    pub findings: Vec<Finding>,
}

impl Profile {
    /// The profile of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        PROFILES.into_iter().find(|profile| profile.name == name)
    }

    /// The metrics with a limit, as the greatest loss in either direction.
    fn limits(&self) -> impl Iterator<Item = (Metric, f64)> {
        [
            (Metric::Throughput, self.throughput_fall),
            (Metric::P50, self.p50_rise),
            (Metric::P95, self.p95_rise),
            (Metric::P99, self.p99_rise),
        ]
        .into_iter()
        .filter_map(|(metric, limit)| Some((metric, limit?)))
    }
}

impl Outcome {
    /// The exit code of `mcplane gate`: 0, 3, 1.
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Pass => 0,
            Self::CannotTell => 3,
            Self::Regression => 1,
        }
    }
}

/// Judges a result by its baseline. A limit on a figure of the clock is broken when the loss reaches
/// it and the interval excludes "no change"; it holds when the loss stays below it and the interval
/// ends before twice the limit; otherwise it cannot be told. Counts, memory, and the highest rate
/// that a search found, are compared as they are.
#[must_use]
pub fn gate(
    baseline: &Recorded,
    result: &Recorded,
    profile: &Profile,
    assertions: &Assertions,
) -> Gate {
    let (before, after) = (baseline.judged(), result.judged());
    let mut findings = counts(baseline, result, profile);
    for group in &before {
        match group.counterpart(&after) {
            Some(now) => findings.extend(same_at_every_run(group, now, profile)),
            None => findings.push(missing(&group.name, "the result has no such run")),
        }
    }
    for (group, now) in before.iter().filter_map(|group| Some((group, group.counterpart(&after)?)))
    {
        let limits = profile.limits();
        findings.extend(limits.map(|(metric, limit)| by_clock(group, now, metric, limit)));
    }
    findings.extend(highest_rate(baseline, result, profile));
    for group in &result.asserted() {
        findings.extend(asserted(group, assertions));
    }
    let worst = findings.iter().map(|finding| finding.outcome).max();
    Gate { profile: profile.name, outcome: worst.unwrap_or(Outcome::CannotTell), findings }
}

fn counts(baseline: &Recorded, result: &Recorded, profile: &Profile) -> Vec<Finding> {
    let now: Vec<_> = result.counts().collect();
    let of = |(name, before): (String, f64)| match now.iter().find(|(other, _)| *other == name) {
        Some((_, after)) => {
            rise("", &name, (before, *after), profile.count_rise, |n| format!("{n}"))
        }
        None => missing(&name, "the result does not have it"),
    };
    baseline.counts().map(of).collect()
}

fn same_at_every_run(before: &Group<'_>, now: &Group<'_>, profile: &Profile) -> Vec<Finding> {
    let counts_now = now.counts();
    let both = |(name, before): (String, f64)| Some((*counts_now.get(&name)?, before, name));
    let count = |(after, before, name): (f64, f64, String)| {
        rise(&now.name, &name, (before, after), profile.count_rise, |n| format!("{n}"))
    };
    let mut findings: Vec<_> = before.counts().into_iter().filter_map(both).map(count).collect();
    let percent = |rate: f64| format!("{:.3} %", 100.0 * rate);
    let (rate, broken, interrupted) = (now.error_rate(), now.broken(), interrupted(before, now));
    findings.push(Finding {
        run: now.name.clone(),
        what: "error_rate".to_owned(),
        baseline: before.error_rate().map_or_else(not_measured, percent),
        result: rate.map_or_else(not_measured, percent),
        ratio: None,
        limit: format!("≤ {}", percent(profile.error_rate_max)),
        outcome: match rate {
            _ if broken.is_some() => Outcome::Regression,
            Some(rate) if rate > profile.error_rate_max => Outcome::Regression,
            // It says nothing about the part that is missing.
            _ if interrupted.is_some() => Outcome::CannotTell,
            Some(_) => Outcome::Pass,
            None => Outcome::CannotTell,
        },
        note: match broken {
            Some(why) => format!("the run broke off: {why}"),
            None => interrupted.unwrap_or_default().to_owned(),
        },
    });
    let rss = before.rss_bytes().zip(now.rss_bytes()).zip(profile.rss_rise);
    let mib = |bytes| format!("{:.1} MiB", bytes / (1024.0 * 1024.0));
    findings.extend(rss.map(|(both, limit)| rise(&now.name, "rss", both, limit, mib)));
    let per_min = |slope| format!("{}/min", mib(slope));
    findings.extend(now.leak().map(|(slope, is_leak)| Finding {
        run: now.name.clone(),
        what: "leak".to_owned(),
        baseline: before.leak().map_or_else(not_measured, |(slope, _)| per_min(slope)),
        result: per_min(slope),
        ratio: None,
        limit: "≤ 1 MiB/min, ≤ 15 %".to_owned(),
        outcome: if is_leak { Outcome::Regression } else { Outcome::Pass },
        note: "Theil and Sen's slope over the seconds of the run".to_owned(),
    }));
    findings
}

fn interrupted(before: &Group<'_>, now: &Group<'_>) -> Option<&'static str> {
    match (before.is_interrupted(), now.is_interrupted()) {
        (false, false) => None,
        (true, false) => Some("the run of the baseline was interrupted"),
        (false, true) => Some("the run of the result was interrupted"),
        (true, true) => Some("both runs were interrupted"),
    }
}

/// A figure without noise that may rise by so much.
fn rise(
    run: &str,
    what: &str,
    (before, after): (f64, f64),
    limit: f64,
    show: impl Fn(f64) -> String,
) -> Finding {
    let is_within = after <= before * (1.0 + limit);
    let ratio = after / before;
    Finding {
        run: run.to_owned(),
        what: what.to_owned(),
        baseline: show(before),
        result: show(after),
        ratio: ratio.is_finite().then_some(exact(ratio)),
        limit: format!("+{:.3} %", 100.0 * limit).replace(".000", ""),
        outcome: if is_within { Outcome::Pass } else { Outcome::Regression },
        note: "exact".to_owned(),
    }
}

fn by_clock(before: &Group<'_>, now: &Group<'_>, metric: Metric, limit: f64) -> Finding {
    let show = |group: &Group<'_>| {
        let value = crate::stats::median(&group.of_runs(metric));
        value.map_or_else(not_measured, |value| metric.show(value))
    };
    let sign = if metric.more_is_better() { '−' } else { '+' };
    let found = before.ratio(now, metric);
    let (outcome, note) = match found {
        Some((ratio, over)) => (judge_loss(&ratio, metric, limit), format!("over {over}")),
        None => (Outcome::CannotTell, TOO_FEW.to_owned()),
    };
    Finding {
        run: now.name.clone(),
        what: metric.to_string(),
        baseline: show(before),
        result: show(now),
        ratio: found.map(|(ratio, _)| ratio),
        limit: format!("{sign}{:.1} %", 100.0 * limit),
        outcome,
        note,
    }
}

/// The highest rates that two searches found, by the limit on throughput.
fn highest_rate(baseline: &Recorded, result: &Recorded, profile: &Profile) -> Option<Finding> {
    let (before, fall) = (baseline.search()?, profile.throughput_fall?);
    let Some(now) = result.search().filter(|now| now.name == before.name) else {
        return Some(missing(&before.name, "the result has no such search"));
    };
    let ended_early = |whose, why| format!("the search of the {whose} ended early: {why}");
    let (outcome, note) = match (before.limit_per_s, now.limit_per_s) {
        _ if let Some(why) = before.unfinished => {
            (Outcome::CannotTell, ended_early("baseline", why))
        }
        _ if let Some(why) = now.unfinished => (Outcome::CannotTell, ended_early("result", why)),
        (None, _) => (Outcome::CannotTell, "no rate held in the baseline".to_owned()),
        (Some(_), None) => (Outcome::Regression, "no rate held in the result".to_owned()),
        (Some(before), Some(now)) => {
            let is_kept = now > before * (1.0 - fall);
            let outcome = if is_kept { Outcome::Pass } else { Outcome::Regression };
            (outcome, "within 3 %: the precision of the search".to_owned())
        }
    };
    let show =
        |rate: Option<f64>| rate.map_or_else(not_measured, |rate| Metric::Throughput.show(rate));
    let ratio = before.limit_per_s.zip(now.limit_per_s).map(|(before, now)| now / before);
    Some(Finding {
        run: now.name,
        what: "limit".to_owned(),
        baseline: show(before.limit_per_s),
        result: show(now.limit_per_s),
        ratio: ratio.filter(|ratio| ratio.is_finite()).map(exact),
        limit: format!("−{:.1} %", 100.0 * fall),
        outcome,
        note,
    })
}

/// A ratio without noise.
const fn exact(ratio: f64) -> Interval {
    Interval { value: ratio, low: ratio, high: ratio }
}

/// The rule of `gate`, on the logarithm of how much worse it became.
fn judge_loss(ratio: &Interval, metric: Metric, limit: f64) -> Outcome {
    let (loss, least, most, limit) = if metric.more_is_better() {
        (-ratio.value.ln(), -ratio.high.ln(), -ratio.low.ln(), -(-limit).ln_1p())
    } else {
        (ratio.value.ln(), ratio.low.ln(), ratio.high.ln(), limit.ln_1p())
    };
    if loss >= limit && least > 0.0 {
        Outcome::Regression
    } else if loss < limit && most <= 2.0 * limit {
        Outcome::Pass
    } else {
        Outcome::CannotTell
    }
}

fn asserted(group: &Group<'_>, assertions: &Assertions) -> Vec<Finding> {
    let of = |Checked { text, measured, holds }: Checked| Finding {
        run: group.name.clone(),
        what: "assertion".to_owned(),
        baseline: String::new(),
        result: measured,
        ratio: None,
        limit: text,
        outcome: match holds {
            Some(true) => Outcome::Pass,
            Some(false) => Outcome::Regression,
            None => Outcome::CannotTell,
        },
        note: String::new(),
    };
    group.facts().iter().flat_map(|facts| assertions.check(facts)).map(of).collect()
}

fn missing(what: &str, why: &str) -> Finding {
    Finding {
        run: what.to_owned(),
        what: "presence".to_owned(),
        baseline: "present".to_owned(),
        result: not_measured(),
        ratio: None,
        limit: "present".to_owned(),
        outcome: Outcome::CannotTell,
        note: why.to_owned(),
    }
}

fn not_measured() -> String {
    "n/a".to_owned()
}

#[cfg(test)]
mod tests;

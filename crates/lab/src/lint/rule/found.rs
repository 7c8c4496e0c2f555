//! Every rule by its id, and what it puts down.

use crate::lint::finding::{Finding, Severity};
use crate::lint::table::{Row, Side, Table};

/// Every rule: its id, and what it holds against a table.
pub const RULES: [(&str, &str); 38] = [
    ("monotone", "a higher percentile is below a lower one, or outside min and max"),
    ("sample-minimum", "a percentile of fewer samples than it takes to say something about it"),
    ("same-percentiles", "three or more figures of one distribution are the same"),
    ("clock-resolution", "latencies are zero, or a few ticks of the clock or of the rounding"),
    ("mean-bounds", "a mean outside the bounds that the percentiles imply"),
    ("skew", "a median beside a throughput that implies a much greater mean"),
    ("little", "throughput times mean latency is not the number in flight"),
    ("closed-loop", "throughput above calls in flight by the least latency"),
    ("concurrency-missing", "throughput and latency, and not how many calls were in flight"),
    ("one-in-flight", "every row has one call in flight"),
    ("burst", "so few calls that the load never became steady"),
    ("flat-ladder", "throughput stays while the number in flight grows"),
    ("generator-bound", "different targets with one throughput"),
    ("mixture", "a figure of the whole that its parts do not allow"),
    ("cache-mixture", "figures of hits and misses that do not fit the hit rate"),
    ("stated-wait", "a latency below, or many times, the wait that the row itself names"),
    ("service-rounds", "a median of queued calls that differs from the rounds they are served in"),
    ("balance", "sent is not received and lost"),
    ("success-rate", "the success rate is not successes by calls"),
    ("total", "rate times duration is not the count"),
    ("message-count", "messages per second that count one of request and answer"),
    ("negative", "a time, a rate or a count below zero"),
    ("percent", "more than all of a whole"),
    ("errors-missing", "no column says how many calls failed"),
    ("ratio-label", "a ratio that is not the ratio of what it names"),
    ("ratio-errors", "a ratio with failed calls on one side"),
    ("improvement", "an improvement of more than 100 per cent"),
    ("scaling", "what a speedup says about the serial share, or a speedup below one"),
    ("batch-rate", "a throughput that counts batches"),
    ("unit-missing", "a figure without a unit"),
    ("unit-scale", "figures that only fit each other in another unit"),
    ("magnitude", "a well-known operation far outside of its usual time"),
    ("statistic-missing", "a latency that does not say whether it is a mean or a percentile"),
    ("copied-row", "different rows with the same measured figures"),
    ("constant-figure", "a measured column with one and the same figure in every row"),
    ("precision", "more digits than the samples or the parts can bear"),
    ("no-spread", "nothing says how far repetitions lie apart"),
    ("two-points", "a trend from its first and last point"),
];

pub(super) type Found = Vec<Finding>;

/// A finding about one row, or about the table.
pub(super) fn finding(
    (table, row): (&Table, Option<&Row>),
    rule: &'static str,
    severity: Severity,
    (numbers, why): (String, &str),
) -> Finding {
    debug_assert!(RULES.iter().any(|(id, _)| *id == rule), "{rule} is in no list");
    Finding {
        rule,
        severity,
        table: table.name.clone(),
        row: row.map(|row| row.label.clone()),
        line: row.map(|row| row.line),
        numbers,
        why: why.to_owned(),
    }
}

impl Side<'_> {
    /// A finding about this side of the row.
    pub(super) fn finding(
        &self,
        rule: &'static str,
        severity: Severity,
        numbers: String,
        why: &str,
    ) -> Finding {
        let numbers = match self.name {
            "" => numbers,
            side => format!("[{side}] {numbers}"),
        };
        finding((self.table, Some(self.row)), rule, severity, (numbers, why))
    }
}

/// Adds a finding about figures that several sides of a row share: once, and of no side.
pub(super) fn once(found: &mut Found, mut finding: Finding) {
    if let Some((_, bare)) =
        finding.numbers.split_once("] ").filter(|(side, _)| side.starts_with('['))
    {
        finding.numbers = bare.to_owned();
    }
    if found.last() != Some(&finding) {
        found.push(finding);
    }
}

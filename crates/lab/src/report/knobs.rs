//! What lets a reader repeat the run, beside the load and the call.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::floor::Floor;
use crate::load::{Kind, Template};
use crate::plan::{Plan, Until};
use crate::run::ns;

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

impl Knobs {
    pub(crate) fn of(plan: &Plan, floor: &Floor) -> Self {
        let (name, plain_floor) = match floor {
            Floor::Off => ("off", false),
            Floor::Memory => ("memory", false),
            Floor::Process(command) => ("process", command.words().any(|word| word == "--plain")),
        };
        let (warmup_calls, warmup) = match plan.warmup {
            Until::Calls(calls) => (Some(calls), None),
            Until::Elapsed(time) => (None, Some(time)),
        };
        Self {
            seed: plan.seed,
            warmup_calls,
            warmup_ns: warmup.map(ns),
            warmup_stretch: plan.warmup_stretch,
            start_timeout_ns: ns(plan.start_timeout),
            stop_grace_ns: ns(plan.stop_grace),
            settle_ns: ns(plan.settle),
            distinct: plan.distinct,
            speak: plan.speak.to_string(),
            floor: name.to_owned(),
            plain_floor,
        }
    }
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
    pub args: Value,
    /// Whether its results were to be checked.
    pub check: bool,
}

impl MixedCall {
    /// One for each kind of call, in the order of the plan.
    pub(crate) fn all(mix: &[Template], kinds: &[Kind]) -> Vec<Self> {
        let of = |(template, kind): (&Template, &Kind)| {
            let built =
                || serde_json::from_slice::<Value>(&kind.params).ok()?.get("arguments").cloned();
            Self {
                tool: template.tool.clone(),
                weight: template.weight,
                args: template.args.clone().or_else(built).unwrap_or_default(),
                check: template.check,
            }
        };
        mix.iter().zip(kinds).map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mcplane_process::Command;
    use serde_json::json;

    use super::*;
    use crate::plan::Speak;
    use crate::report::tests::sample;

    #[test]
    fn every_knob_is_recorded() {
        let plan = Plan {
            seed: 7,
            warmup: Until::Calls(9),
            start_timeout: Duration::from_secs(3),
            settle: Duration::ZERO,
            speak: Speak::Era(mcplane_proto::Era::Legacy),
            ..Plan::default()
        };
        let floor = Floor::Process(Command::new("floor").arg("--plain"));
        let knobs = serde_json::to_value(Knobs::of(&plan, &floor)).unwrap();
        let want = json!({
            "seed": 7, "warmup_calls": 9, "warmup_ns": null, "warmup_stretch": 10,
            "start_timeout_ns": 3_000_000_000_u64, "stop_grace_ns": 1_000_000_000,
            "settle_ns": 0, "distinct": false, "speak": "legacy", "floor": "process",
            "plain_floor": true,
        });
        assert_eq!(knobs, want);
        let knobs = Knobs::of(&Plan::default(), &Floor::Process(Command::new("floor")));
        assert_eq!((knobs.warmup_ns, knobs.plain_floor), (Some(1_000_000_000), false));
        assert_eq!(Knobs::of(&plan, &Floor::Off).floor, "off");
    }

    #[test]
    fn a_record_without_them_is_read() {
        let run = sample(100, false);
        assert_eq!((run.plan.knobs, run.target.binary), (None, None));
        assert!(run.plan.mix.is_empty());
    }
}

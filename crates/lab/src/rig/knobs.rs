//! What lets a reader repeat the run, beside the load and the call.

use serde_json::Value;

use crate::floor::Floor;
use crate::load::{Kind, Template};
use crate::plan::Plan;
use crate::record::ns;
use crate::results::{Knobs, MixedCall};
use crate::spec::Until;

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
    use crate::client::Speak;
    use crate::results::tests::sample;

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

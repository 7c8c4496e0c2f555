//! A rate that changes evenly.

use std::str::FromStr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::curve::{Curve, Syntax, are_rates, rates};
use crate::results::words::Words;

/// Evenly from one rate to another over the whole run.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[allow(clippy::exhaustive_structs, reason = "plain data that the caller fills in")]
pub struct Ramp {
    /// Calls per second at the start.
    pub from_per_s: f64,
    /// Calls per second at the end.
    pub to_per_s: f64,
}

impl Ramp {
    /// How it is written.
    pub const SYNTAX: Syntax = Syntax { form: "N..N", example: "100..2000" };
}

impl FromStr for Ramp {
    type Err = String;

    /// `100..2000`: from 100 to 2000 calls per second.
    fn from_str(text: &str) -> Result<Self, String> {
        let rates =
            text.split_once("..").and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
        let (from_per_s, to_per_s) = rates.ok_or_else(|| Self::SYNTAX.expected())?;
        Ok(Self { from_per_s, to_per_s })
    }
}

impl Curve for Ramp {
    fn mean_per_s(&self) -> f64 {
        f64::midpoint(self.from_per_s, self.to_per_s)
    }

    fn calls_before(&self, at: Duration, length_s: f64) -> f64 {
        let t = at.as_secs_f64();
        (self.from_per_s + 0.5 * (self.to_per_s - self.from_per_s) * t / length_s) * t
    }

    fn second_of(&self, call: f64, length_s: f64) -> f64 {
        // The root of slope/2 · t² + from · t − call, in the form that is stable for any slope. There
        // is none beyond the end of a ramp that falls to nothing.
        let slope = (self.to_per_s - self.from_per_s) / length_s;
        let root = (self.from_per_s.powi(2) + 2.0 * slope * call).sqrt();
        if call > 0.0 { 2.0 * call / (self.from_per_s + root) } else { 0.0 }
    }

    fn told(&self, words: Words) -> String {
        let (from, to) = (words.rate(self.from_per_s), words.rate(self.to_per_s));
        match words {
            Words::Short => format!("ramp {from}..{to}/s"),
            Words::Long => format!("{from} to {to} calls/s"),
            Words::Exact => format!("{from}..{to}/s"),
            Words::Name => format!("ramp_{from}_{to}_per_s"),
        }
    }

    fn check(&self) -> Result<(), (String, String)> {
        let Self { from_per_s: from, to_per_s: to } = *self;
        let fits = are_rates(&[from, to], self.mean_per_s());
        if fits { Ok(()) } else { Err((format!("{from}..{to}"), rates())) }
    }

    fn is_level(&self) -> bool {
        false
    }
}

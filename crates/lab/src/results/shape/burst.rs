//! Many calls at once, again and again.

use std::str::FromStr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::curve::{Curve, Syntax, a_time, are_rates, rates};
use crate::results::words::Words;
use crate::text;

/// Many calls at once, again and again, the first ones at the start.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[allow(clippy::exhaustive_structs, reason = "plain data that the caller fills in")]
pub struct Burst {
    /// Calls of one burst.
    pub calls: u64,
    /// Nanoseconds from one burst to the next.
    pub every_ns: u64,
}

impl Burst {
    /// How it is written.
    pub const SYNTAX: Syntax = Syntax { form: "N/TIME", example: "50/1s" };
}

impl FromStr for Burst {
    type Err = String;

    /// `50/1s`: 50 calls every second.
    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || Self::SYNTAX.expected();
        let (calls, every) = text.split_once('/').ok_or_else(expected)?;
        let calls = calls.parse().map_err(|_| expected())?;
        let every_ns = u64::try_from(text::duration(every)?.as_nanos()).map_err(|_| expected())?;
        Ok(Self { calls, every_ns })
    }
}

#[allow(clippy::cast_precision_loss, reason = "more than 2^53 calls are not made")]
impl Curve for Burst {
    fn mean_per_s(&self) -> f64 {
        self.calls as f64 * 1e9 / self.every_ns as f64
    }

    fn calls_before(&self, at: Duration, _: f64) -> f64 {
        at.as_nanos().div_ceil(u128::from(self.every_ns)) as f64 * self.calls as f64
    }

    fn second_of(&self, call: f64, _: f64) -> f64 {
        (call / self.calls as f64).floor() * (self.every_ns as f64 / 1e9)
    }

    fn told(&self, words: Words) -> String {
        let Self { calls, every_ns } = *self;
        let (many, every) = (text::count(calls), Duration::from_nanos(every_ns));
        match words {
            Words::Short => {
                format!("burst of {many} every {}", text::short_time(every_ns as f64))
            }
            Words::Long => {
                let every = text::time(text::ns(Some(every_ns)));
                format!("{many} calls at once every {every}")
            }
            Words::Exact => format!("{calls}/{every:?}"),
            Words::Name => format!("burst_{calls}_every_{every:?}"),
        }
    }

    fn check(&self) -> Result<(), (String, String)> {
        a_time(self.window_min())?;
        let fits = are_rates(&[], self.mean_per_s());
        if fits { Ok(()) } else { Err((format!("{} calls", self.calls), rates())) }
    }

    /// Each stretch has a burst.
    fn window_min(&self) -> Duration {
        Duration::from_nanos(self.every_ns)
    }

    fn why_constant(&self) -> Option<&'static str> {
        Some("the calls of a burst come at once")
    }
}

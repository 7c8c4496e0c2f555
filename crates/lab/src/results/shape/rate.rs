//! The same rate all the time.

use std::str::FromStr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::curve::{Curve, Syntax, are_rates, rates};
use crate::results::words::Words;

/// The same all the time.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[allow(clippy::exhaustive_structs, reason = "plain data that the caller fills in")]
pub struct Rate {
    /// Calls per second.
    pub per_s: f64,
}

impl Rate {
    /// How it is written.
    pub const SYNTAX: Syntax = Syntax { form: "N", example: "500" };
}

impl FromStr for Rate {
    type Err = String;

    /// `500`: 500 calls per second.
    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(|per_s| Self { per_s }).map_err(|_| Self::SYNTAX.expected())
    }
}

impl Curve for Rate {
    fn mean_per_s(&self) -> f64 {
        self.per_s
    }

    fn calls_before(&self, at: Duration, _: f64) -> f64 {
        self.per_s * at.as_secs_f64()
    }

    fn second_of(&self, call: f64, _: f64) -> f64 {
        call / self.per_s
    }

    fn told(&self, words: Words) -> String {
        let rate = words.rate(self.per_s);
        match words {
            Words::Short | Words::Exact => format!("{rate}/s"),
            Words::Long => format!("{rate} calls/s"),
            Words::Name => format!("{rate}_per_s"),
        }
    }

    fn check(&self) -> Result<(), (String, String)> {
        let fits = are_rates(&[], self.per_s);
        if fits { Ok(()) } else { Err((self.per_s.to_string(), rates())) }
    }
}

//! How the rate of an open loop goes over time.
//!
//! * [`Shape`] — all shapes (this file).
//! * `curve`   — what the lab has to know of each.
//! * `rate`, `ramp`, `burst` — one file for each.

mod burst;
mod curve;
mod ramp;
mod rate;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use burst::Burst;
pub(crate) use curve::{Curve, a_time};
pub use curve::{DURATION_MAX, RATE_PER_S_MAX, Syntax};
pub use ramp::Ramp;
pub use rate::Rate;

/// How the rate goes.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(tag = "shape", rename_all = "snake_case")]
#[allow(clippy::exhaustive_enums, reason = "plain data that the caller fills in")]
pub enum Shape {
    /// The same all the time.
    Rate(Rate),
    /// Evenly from one rate to another over the whole run.
    Ramp(Ramp),
    /// Many calls at once, again and again, the first ones at the start.
    Burst(Burst),
}

impl Shape {
    pub(crate) fn curve(&self) -> &dyn Curve {
        match self {
            Self::Rate(rate) => rate,
            Self::Ramp(ramp) => ramp,
            Self::Burst(burst) => burst,
        }
    }
}

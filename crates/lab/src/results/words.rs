//! In how many words something is told.

/// How a load is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Words {
    /// In few words: `32 in flight`, `1,000/s`, `ramp 100..2,000/s`.
    Short,
    /// In many, up to the number in flight: `open loop, 1,000 calls/s, at most `.
    Long,
    /// Exactly: `×32`, `@1000/s ≤1024`. The seed of random arrivals is not in it: with another, the
    /// load is the same.
    Exact,
    /// As a part of a name: `32`, `500_per_s`, `ramp_100_2000_per_s`.
    Name,
}

impl Words {
    /// A number of calls per second.
    pub(crate) fn rate(self, per_s: f64) -> String {
        match self {
            Self::Exact => per_s.to_string(),
            Self::Name => ((per_s * 1e3).round() / 1e3).to_string(),
            Self::Short | Self::Long => crate::text::rate(per_s),
        }
    }
}

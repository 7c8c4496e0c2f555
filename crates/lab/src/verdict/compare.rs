//! Two sides that were measured in turns, run by run.

use super::judge;
use crate::results::{Comparison, Metric, Verdict};
use crate::stats::{
    Interval, LEVEL, hodges_lehmann, mann_whitney, median, ratio_by_ranks, ratio_of_medians,
    ratio_paired, ratio_unpaired, t_quantile,
};

/// The least effect that matters, if nobody says otherwise: 5 %.
pub const EFFECT_DEFAULT: f64 = 0.05;

/// Pairs of runs, if nobody says otherwise. At a noise of 3.5 % per run a true effect of 10 % is found
/// in 98 of 100 comparisons. From 12 pairs on, a single wild run hides nothing.
pub const PAIRS_DEFAULT: usize = 10;

/// Fewest pairs that are judged: with two, the interval is six times as wide as with three.
pub const PAIRS_MIN: usize = 3;

/// Where the bootstrap begins: any number, as long as it is always the same.
const SEED: u64 = 1;

/// Compares one metric. `effect` is the least that matters, as a fraction. Samples that are paired
/// have the same index. `None` with fewer than [`PAIRS_MIN`] on a side, or samples that are not above
/// zero.
#[must_use]
pub fn compare(
    metric: Metric,
    a: &[f64],
    b: &[f64],
    paired: bool,
    effect: f64,
) -> Option<Comparison> {
    if a.len().min(b.len()) < PAIRS_MIN {
        return None;
    }
    let ratio = ratio(a, b, paired)?;
    let count = a.len().min(b.len()) as f64;
    let df = if paired { count - 1.0 } else { 2.0 * (count - 1.0) };
    // The interval's half width is t·√(2/n)·noise on either way.
    let half = (ratio.high / ratio.low).ln() / 2.0;
    let noise = half / t_quantile(f64::midpoint(1.0, LEVEL), df) * (count / 2.0).sqrt();
    let verdict = judge(&ratio, effect, metric.more_is_better());
    Some(Comparison {
        metric,
        paired,
        samples: a.len().min(b.len()),
        a: median(a)?,
        b: median(b)?,
        ratio,
        medians: paired.then(|| ratio_of_medians(a, b, LEVEL, SEED)).flatten(),
        shift: hodges_lehmann(a, b, LEVEL),
        mann_whitney: mann_whitney(a, b),
        noise,
        verdict,
        samples_needed: needed(noise, effect)
            .filter(|needed| verdict == Verdict::CannotTell && *needed > a.len().min(b.len())),
        why: None,
    })
}

/// The interval that decides. Of pairs it is the one by ranks, or Student's where fewer than six leave
/// no ranks to speak of.
fn ratio(a: &[f64], b: &[f64], paired: bool) -> Option<Interval> {
    if !paired {
        return ratio_unpaired(a, b, LEVEL);
    }
    ratio_by_ranks(a, b, LEVEL).or_else(|| ratio_paired(a, b, LEVEL))
}

impl Comparison {
    /// Takes the calibration into account, A against A in the same turns: where that already comes
    /// to a difference, nothing can be told about B that is not greater.
    #[must_use]
    pub fn calibrated(mut self, noise: &Self) -> Self {
        let is_seen = |verdict| matches!(verdict, Verdict::Faster | Verdict::Slower);
        let size = |ratio: &Interval| ratio.value.ln().abs();
        if is_seen(self.verdict)
            && is_seen(noise.verdict)
            && size(&self.ratio) < 2.0 * size(&noise.ratio)
        {
            let off = 100.0 * (noise.ratio.value - 1.0);
            self.verdict = Verdict::CannotTell;
            self.why = Some(format!("A differed from itself by {off:+.1} %"));
        }
        self
    }
}

/// The pairs that bring the half width of the interval down to the effect.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small and positive")]
fn needed(noise: f64, effect: f64) -> Option<usize> {
    let count = (1.96 * noise / effect.ln_1p()).powi(2) * 2.0;
    count.is_finite().then(|| (count.ceil() as usize + 2).clamp(PAIRS_MIN, 100_000))
}

#[cfg(test)]
mod tests;

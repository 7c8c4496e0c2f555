//! What a cell says: a number, how far it is rounded, and the unit written behind it.

use super::name::{Unit, unit_of};

/// A number as it was printed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Figure {
    /// The number.
    pub(super) value: f64,
    /// The least that may have been printed so, whether rounded or cut off.
    pub(super) low: f64,
    /// The greatest.
    pub(super) high: f64,
    /// One unit of the last printed digit.
    pub(super) step: f64,
    /// Whether it is a number by itself: no range, and not about, above or below one.
    pub(super) plain: bool,
}

impl Figure {
    pub(super) const fn exact(value: f64) -> Self {
        Self { value, low: value, high: value, step: 0.0, plain: true }
    }

    pub(super) fn scaled(self, by: f64) -> Self {
        let Self { value, low, high, step, plain } = self;
        Self { value: value * by, low: low * by, high: high * by, step: step * by, plain }
    }

    /// This divided by another, with the bounds of both. `None` if the other may be zero.
    pub(super) fn over(self, other: Self) -> Option<Self> {
        (other.low > 0.0).then(|| Self {
            value: self.value / other.value,
            low: self.low / other.high,
            high: self.high / other.low,
            step: 0.0,
            plain: false,
        })
    }

    /// Whether both may stand for the same number.
    pub(super) fn meets(self, other: Self) -> bool {
        self.low <= other.high && other.low <= self.high
    }

    /// Whether it is greater by more than rounding explains. Rounding keeps the order, so that of
    /// figures with the same last digit is the printed one.
    pub(super) fn is_above(self, other: Self) -> bool {
        if self.plain && other.plain && self.step.total_cmp(&other.step).is_eq() {
            self.value > other.value
        } else {
            self.low > other.high
        }
    }

    /// How many digits from the first that is not zero to the last that was printed.
    pub(super) fn digits(self) -> i32 {
        if self.step <= 0.0 || self.value == 0.0 {
            return 0;
        }
        #[allow(clippy::cast_possible_truncation, reason = "a few hundred at most")]
        let digits = (self.value.abs() / self.step).log10().floor() as i32 + 1;
        digits
    }
}

/// Reads a cell: the number in its unit's own size, and the unit if one is written.
pub(super) fn read(cell: &str) -> Option<(Figure, Option<Unit>)> {
    let number_on = cell.trim().trim_start_matches(['~', '≈', '<', '>', '=', '±', ' ', '+']);
    let (first, rest) = number(number_on)?;
    let first = Figure { plain: !cell.contains(['~', '≈', '<', '>', '±']), ..first };
    let range =
        rest.trim_start().strip_prefix(['-', '–', '…']).and_then(|r| number(r.trim_start()));
    let (figure, rest) = match range {
        Some((last, rest)) if last.value >= first.value => {
            let value = f64::midpoint(first.value, last.value);
            (
                Figure { value, low: first.low, high: last.high, step: first.step, plain: false },
                rest,
            )
        }
        _ => (first, rest),
    };
    let (multiplier, rest) = multiplier(rest.trim_start());
    let word: String =
        rest.trim().chars().take_while(|c| !c.is_whitespace() && *c != '(').collect();
    let unit = unit_of(&word.to_lowercase().replace(['µ', 'μ'], "u"));
    // A word behind the number that is not a unit makes it text: `4 workers`, `20 ms sleep`.
    let known =
        unit.is_some() || word.is_empty() || word.contains('/') || word == "x" || word == "×";
    let after = rest.trim().get(word.len()..).unwrap_or_default().trim_start();
    let known = known && !after.starts_with(char::is_alphabetic);
    known.then(|| (figure.scaled(multiplier), unit))
}

/// `k`, `M` or `G` that stands alone or before a rate.
fn multiplier(rest: &str) -> (f64, &str) {
    let mut chars = rest.chars();
    let by = match chars.next() {
        Some('k' | 'K') => 1e3,
        Some('M') => 1e6,
        Some('G') => 1e9,
        _ => return (1.0, rest),
    };
    match chars.next() {
        None | Some(' ' | '/') => (by, rest.get(1..).unwrap_or_default()),
        Some(_) => (1.0, rest),
    }
}

/// A decimal number with `,` or `_` between groups of three, and what follows it.
fn number(text: &str) -> Option<(Figure, &str)> {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let mut end = usize::from(bytes.first() == Some(&b'-'));
    let (mut plain, mut decimals) = (text.get(..end)?.to_owned(), None);
    while let Some(&byte) = bytes.get(end) {
        match byte {
            b'0'..=b'9' => {
                plain.push(char::from(byte));
                decimals = decimals.map(|n: i32| n.saturating_add(1));
            }
            b'.' if decimals.is_none() && digit(end + 1) => {
                plain.push('.');
                decimals = Some(0);
            }
            b',' | b'_' if decimals.is_none() && group(bytes, end) => {}
            _ => break,
        }
        end += 1;
    }
    if !plain.bytes().any(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let mut exponent = 0_i32;
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'-' | b'+')));
        let mut stop = end + 1 + sign;
        while digit(stop) {
            stop += 1;
        }
        if let Ok(power) = text.get(end + 1..stop)?.trim_start_matches('+').parse::<i32>() {
            exponent = power.clamp(-300, 300);
            end = stop;
        }
    }
    let value = plain.parse::<f64>().ok()? * 10_f64.powi(exponent);
    let step = 10_f64.powi(exponent.saturating_sub(decimals.unwrap_or(0)));
    let figure = Figure { value, low: value - step, high: value + step, step, plain: true };
    value.is_finite().then_some((figure, text.get(end..)?))
}

/// Whether exactly three digits follow the separator.
fn group(bytes: &[u8], at: usize) -> bool {
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    at > 0 && (1..=3).all(|i| digit(at + i)) && !digit(at + 4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lint::name::Dimension;

    #[test]
    fn cells_are_numbers_with_a_rounding_and_a_unit() {
        let value = |cell: &str| read(cell).map(|(figure, unit)| (figure.value, unit));
        assert_eq!(value("48,813"), Some((48_813.0, None)));
        assert_eq!(value("~5.8x").map(|v| v.0), Some(5.8));
        assert_eq!(value("12k").map(|v| v.0), Some(12_000.0));
        assert_eq!(value("2.6M/s").map(|v| v.0), Some(2_600_000.0));
        assert_eq!(value("80-150").map(|v| v.0), Some(115.0));
        assert_eq!(value("1e-3").map(|v| v.0), Some(0.001));
        assert_eq!(value("-3").map(|v| v.0), Some(-3.0));
        let (_, unit) = value("20 µs").unwrap();
        assert_eq!(unit, Some(Unit { dimension: Dimension::Time, scale: 1e-6 }));
        for text in ["", "n/a", "-", "stdio", "4 workers; 50 ms sleep", "20ms sleep", "1.2.3 beta"]
        {
            assert_eq!(value(text), None, "{text}");
        }
    }

    #[test]
    fn rounding_keeps_the_order() {
        let above = |a: &str, b: &str| read(a).unwrap().0.is_above(read(b).unwrap().0);
        assert!(above("5.3", "5.2") && above("5", "4") && !above("5.3", "5.28"));
        assert!(above("5.4", "5.28") && !above("5.2", "5.2") && !above("5.2", "5.3"));
        assert!(!above("~5.3", "5.2") && !above("5.3", "<5.2") && !above("80-150", "100-120"));
    }

    #[test]
    fn the_last_digit_is_the_rounding() {
        let (figure, _) = read("0.70").unwrap();
        assert!((figure.step - 0.01).abs() < 1e-12 && figure.digits() == 2);
        let (range, _) = read("800-1000").unwrap();
        assert!(range.low < 800.0 && range.high > 1000.0);
        assert!(range.meets(Figure::exact(900.0)) && !range.meets(Figure::exact(700.0)));
    }
}

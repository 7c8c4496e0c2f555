//! Figures and texts of others as people read them.

use std::time::Duration;

use mcplane_proto::text::is_active;

pub(crate) fn na() -> String {
    "n/a".to_owned()
}

#[allow(clippy::cast_precision_loss, reason = "three digits are printed")]
pub(crate) fn ns(value: Option<u64>) -> Option<f64> {
    value.map(|ns| ns as f64)
}

/// Nanoseconds in the unit that leaves one to three digits before the point.
pub(crate) fn time(ns: Option<f64>) -> String {
    let Some(ns) = ns else { return na() };
    let units = [("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];
    // 999.5 of a unit would print as 1000 of it.
    let unit = units.iter().find(|(_, size)| ns < size * 999.5).unwrap_or(&("s", 1e9));
    let value = ns / unit.1;
    match value {
        v if unit.0 == "ns" && v.fract() == 0.0 => format!("{v:.0} ns"),
        v if v < 9.995 => format!("{v:.2} {}", unit.0),
        v if v < 99.95 => format!("{v:.1} {}", unit.0),
        v => format!("{v:.0} {}", unit.0),
    }
}

/// The same without zeros at its end: `10 ms`, `1.5 µs`.
pub(crate) fn short_time(ns: f64) -> String {
    let text = time(Some(ns));
    match text.split_once(' ') {
        Some((digits, unit)) if digits.contains('.') => {
            format!("{} {unit}", digits.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => text,
    }
}

pub(crate) fn bytes(value: Option<u64>) -> String {
    #[allow(clippy::cast_precision_loss, reason = "one decimal is printed")]
    value.map_or_else(na, |bytes| format!("{:.1} MiB", bytes as f64 / 1_048_576.0))
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate is positive")]
pub(crate) fn rate(per_s: f64) -> String {
    if per_s < 100.0 { format!("{per_s:.2}") } else { count(per_s.round() as u64) }
}

pub(crate) fn times(ratio: f64) -> String {
    format!("{} ×", digits(ratio))
}

/// A ratio with two or three significant digits.
pub(crate) fn digits(ratio: f64) -> String {
    match ratio {
        r if r < 9.995 => {
            let (mut leading, mut decimals) = (r, 2);
            while leading > 0.0 && leading < 0.0995 {
                (leading, decimals) = (10.0 * leading, decimals + 1);
            }
            format!("{r:.decimals$}")
        }
        r if r < 99.95 => format!("{r:.1}"),
        r => format!("{r:.0}"),
    }
}

/// A figure as people read it: two or three significant digits, or all before the point with commas.
#[must_use]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is positive there")]
pub fn figure(value: f64) -> String {
    match value {
        v if v >= 999.5 => count(v.round() as u64),
        0.0 => "0".to_owned(),
        v => digits(v),
    }
}

/// A number with commas between thousands.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

pub(crate) fn cut(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max.saturating_sub(1)) {
        Some((end, _)) if text.chars().count() > chars_max => {
            format!("{}…", text.get(..end).unwrap_or_default())
        }
        _ => text.to_owned(),
    }
}

/// The first `chars_max` characters on one line.
pub(crate) fn short(text: &str, chars_max: usize) -> String {
    let line: String = text.chars().map(|c| if c.is_whitespace() { ' ' } else { c }).collect();
    cut(&line, chars_max)
}

/// The start of something a peer sent, on one line, for a message to the user.
pub(crate) fn shorten(text: &[u8]) -> String {
    const SHOWN_CHARS_MAX: usize = 300;
    let text = String::from_utf8_lossy(text);
    let plain = |c: char| if is_active(c) { ' ' } else { c };
    let mut shown: String = text.chars().take(SHOWN_CHARS_MAX).map(plain).collect();
    if text.chars().nth(SHOWN_CHARS_MAX).is_some() {
        shown.push('…');
    }
    shown
}

/// How to paint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "plain data that the caller builds")]
pub struct Style {
    /// Whether colours are wanted: a terminal, and no `NO_COLOR`.
    pub colour: bool,
}

impl Style {
    fn paint(self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    pub(crate) fn red(self, text: &str) -> String {
        self.paint("31", text)
    }
}

/// A time with its unit: `500ms`, `1.5s`, `2m`, `1h`; without one, seconds.
///
/// # Errors
/// What it takes.
pub fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text.get(digits.len()..) {
        Some("ms") => 1e-3,
        Some("" | "s") => 1.0,
        Some("m") => 60.0,
        Some("h") => 3600.0,
        _ => return Err("units are ms, s, m and h".to_owned()),
    };
    let number: f64 = digits.parse().map_err(|_| "not a number with a unit".to_owned())?;
    Duration::try_from_secs_f64(number * unit).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits_and_a_unit() {
        for (ns, text) in [
            (7.0, "7 ns"),
            (7.25, "7.25 ns"),
            (999.0, "999 ns"),
            (1_000.0, "1.00 µs"),
            (12_345.0, "12.3 µs"),
            (999_600.0, "1.00 ms"),
            (123_456_789.0, "123 ms"),
            (1.5e9, "1.50 s"),
            (7.2e12, "7200 s"),
        ] {
            assert_eq!(time(Some(ns)), text);
        }
        assert_eq!(time(None), "n/a");
    }

    #[test]
    fn numbers_are_grouped() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1234567, "1,234,567")] {
            assert_eq!(count(number), text);
        }
        assert_eq!((rate(12.345), rate(1234.5)), ("12.35".to_owned(), "1,235".to_owned()));
        let ratios = [0.0123, 0.5, 9.99, 12.34, 1705.6].map(times);
        assert_eq!(ratios, ["0.012 ×", "0.50 ×", "9.99 ×", "12.3 ×", "1706 ×"]);
        let small = [0.0, 0.000_081_3, 0.000_999, 0.0997].map(times);
        assert_eq!(small, ["0.00 ×", "0.000081 ×", "0.0010 ×", "0.10 ×"]);
        assert_eq!(bytes(Some(3 * 1_048_576 / 2)), "1.5 MiB");
    }
}

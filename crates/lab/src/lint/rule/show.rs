//! Figures as text, with three or four digits.

/// Seconds in the unit that suits them.
pub(super) fn time(seconds: f64) -> String {
    let (by, unit) = match seconds.abs() {
        s if s >= 1.0 => (1.0, "s"),
        s if s >= 1e-3 => (1e3, "ms"),
        s if s >= 1e-6 || s == 0.0 => (1e6, "µs"),
        _ => (1e9, "ns"),
    };
    format!("{} {unit}", number(seconds * by))
}

/// Calls per second.
pub(super) fn rate(per_second: f64) -> String {
    format!("{}/s", number(per_second))
}

/// A plain number: whole from 1,000 on, with groups of three.
pub(super) fn number(value: f64) -> String {
    let size = value.abs();
    if size < 1_000.0 {
        let decimals = match size {
            s if s >= 100.0 => 1,
            s if s >= 1.0 => 2,
            s if s >= 0.01 || s == 0.0 => 3,
            _ => return format!("{value:.1e}"),
        };
        let text = format!("{value:.decimals$}");
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    let digits = format!("{size:.0}");
    let mut text = if value < 0.0 { "-".to_owned() } else { String::new() };
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_well() {
        let texts = [time(0.0000205), time(1.774), rate(48_813.0), number(5.8), number(0.0)];
        assert_eq!(texts, ["20.5 µs", "1.77 s", "48,813/s", "5.8", "0"]);
    }
}

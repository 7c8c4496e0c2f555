//! What a run looks like while it runs: a few lines of text for whoever watches.

use std::time::Duration;

use crate::control::{Control, Moment, Stage};
use crate::results::Errors;
use crate::text::{bytes, count, ns, rate, time};

/// Columns of the histogram of latencies.
const COLUMNS: usize = 40;

/// From nothing to the fullest column.
const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// When a second is over and the next has not come, something hangs.
const LATE: Duration = Duration::from_secs(2);

/// What the run is doing and how far it is, on one line, and below it the last second of the target:
/// rate, percentiles, histogram, errors by kind, and what its processes use. Needs
/// [`Control::watch`] for the latter.
#[must_use]
pub fn lines(control: &Control) -> Vec<String> {
    let mut lines = vec![stage(control)];
    if control.stage() == Stage::Measuring {
        let moment = control.moment();
        lines.extend(calls(&moment));
        lines.extend(errors(&moment.errors));
        lines.extend(server(&moment));
    }
    lines
}

fn stage(control: &Control) -> String {
    match control.stage() {
        Stage::Starting => "starting the server".to_owned(),
        Stage::Validating => "trying the call".to_owned(),
        Stage::WarmingUp => "warming up".to_owned(),
        Stage::Measuring => {
            let done = control.permille() / 10;
            let failed = match control.errors() {
                0 => String::new(),
                errors => format!(", {} errors", count(errors)),
            };
            format!("measuring, {done} % · {} calls{failed}", count(control.calls()))
        }
        Stage::Finishing => "stopping".to_owned(),
    }
}

fn calls(moment: &Moment) -> Vec<String> {
    let Some(at) = moment.at else { return Vec::new() };
    let late = at.elapsed().saturating_sub(Duration::from_nanos(moment.length_ns));
    let late = match late > LATE {
        true => format!(" · nothing more for {:.0} s", late.as_secs_f64()),
        false => String::new(),
    };
    let (p50, p99) = (time(ns(moment.p50_ns)), time(ns(moment.p99_ns)));
    let rate = rate(moment.rate_per_s());
    let mut lines = vec![format!("  rate     {rate} calls/s · p50 {p50} · p99 {p99}{late}")];
    let ends = moment.latencies.first().zip(moment.latencies.last());
    if let Some(((least, _), (most, _))) = ends {
        let [least, most] = [least, most].map(|at| time(ns(Some(*at))));
        lines.push(format!("  latency  {least} │{}│ {most}", histogram(&moment.latencies)));
    }
    lines
}

fn errors(errors: &Errors) -> Option<String> {
    let seen = errors.kinds().into_iter().filter(|(_, number)| *number > 0);
    let seen: Vec<_> = seen.map(|(name, number)| format!("{name} {}", count(number))).collect();
    (!seen.is_empty()).then(|| format!("  errors   {}", seen.join(" · ")))
}

fn server(moment: &Moment) -> Option<String> {
    let used = moment.resources?;
    Some(format!(
        "  server   CPU {:.0} % · memory {} · {} fds · {} threads · {} processes",
        100.0 * used.cores(),
        bytes(Some(used.rss_bytes)),
        used.fds,
        used.threads,
        used.processes
    ))
}

/// Latencies from the least to the greatest, each column as much longer than the one before as all
/// are; the fullest is a full block, and one with a single call in it can be seen.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a column, and an eighth of a line"
)]
fn histogram(latencies: &[(u64, u64)]) -> String {
    let ln = |ns: u64| (ns.max(1) as f64).ln();
    let Some(((least, _), (most, _))) = latencies.first().zip(latencies.last()) else {
        return String::new();
    };
    let width = (ln(*most) - ln(*least)).max(f64::MIN_POSITIVE);
    let mut columns = [0_u64; COLUMNS];
    for (at, calls) in latencies {
        let column = (ln(*at) - ln(*least)) / width * COLUMNS as f64;
        if let Some(column) = columns.get_mut((column as usize).min(COLUMNS - 1)) {
            *column += calls;
        }
    }
    let fullest = columns.iter().copied().max().unwrap_or(0).max(1);
    let block = |calls: &u64| BLOCKS.get((calls * 8).div_ceil(fullest) as usize).unwrap_or(&'█');
    columns.iter().map(block).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::record::{Fault, Seconds};

    #[test]
    fn the_last_second_is_there() {
        let control = Control::default();
        control.watch();
        assert_eq!(lines(&control), ["starting the server"]);
        control.enter(Stage::Measuring);
        control.add(1234, 2);
        control.set_permille(421);
        assert_eq!(lines(&control), ["measuring, 42 % · 1,234 calls, 2 errors"]);

        let start = Instant::now();
        let mut seconds = Seconds::new(start);
        for call in 0..2000_u64 {
            let now = start + Duration::from_micros(call * 499);
            seconds.succeed(now, Duration::from_micros(100 + call % 100));
        }
        seconds.fail(start, Fault::Timeout);
        seconds.fail(start + Duration::from_millis(1001), Fault::IsError);
        let (length, interval) = seconds.fresh().unwrap();
        control.show_calls(length, interval);
        let mut row = crate::results::ResourceSecond::default();
        (row.length_ns, row.cpu_user_ns, row.rss_bytes) = (1 << 30, 1 << 29, 3 << 20);
        (row.fds, row.threads, row.processes) = (11, 5, 1);
        control.show_resources(&row);

        let lines = lines(&control);
        assert_eq!(lines.len(), 5, "{lines:#?}");
        assert!(lines[1].starts_with("  rate     2,000 calls/s · p50 14"), "{lines:#?}");
        assert!(lines[2].starts_with("  latency  100 µs │") && lines[2].ends_with("│ 199 µs"));
        assert_eq!(lines[3], "  errors   timeout 1", "the other one came later");
        let server = "  server   CPU 50 % · memory 3.0 MiB · 11 fds · 5 threads · 1 processes";
        assert_eq!(lines[4], server);
    }

    #[test]
    fn a_histogram_has_the_form_of_its_latencies() {
        let drawn = histogram(&[(1_000, 8), (31_700, 80), (1_000_000, 1)]);
        let seen: Vec<_> = drawn.chars().enumerate().filter(|(_, c)| *c != ' ').collect();
        assert_eq!(seen, [(0, '▁'), (20, '█'), (39, '▁')]);
        assert_eq!(histogram(&[(5, 3)]).trim_end(), "█");
        assert_eq!(histogram(&[]), "");
    }
}

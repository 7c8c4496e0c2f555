//! The text for people: a table of at most 100 columns, each figure with its unit.

use std::fmt::{self, Write};
use std::slice;

use crate::results::{
    Checking, Drifting, Measured, QUANTILES, Ratio, Report, Results, Run, TargetInfo, Transport,
    Warmup, Words,
};
use crate::text::{Style, bytes, count, cut, digits, na, ns, rate, time, times};

/// Columns of the widest line.
pub(super) const WIDTH: usize = 100;

/// Columns of the first column, which names the figure.
const LABEL: usize = 20;

impl Report {
    /// The report as text: one block for each run, or one table of runs that were measured together.
    #[must_use]
    pub fn to_text(&self, style: Style) -> String {
        let mut out = String::new();
        let mut page = Page { out: &mut out, style };
        // Writing into a string does not fail.
        let _ = page.measured(self);
        let _ = page.asserted(self);
        let environment = &self.environment;
        let cpu = environment.cpu.as_deref().unwrap_or("CPU unknown");
        let mut line = format!("{cpu} · {} cores", environment.cores);
        if let Some([load, ..]) = environment.load_before {
            let _ = write!(line, " · load before {load:.1}");
        }
        if !environment.optimised {
            line.push_str(" · mcplane built WITHOUT optimisation: use --release");
        }
        let _ = writeln!(out, "{}", style.dim(&cut(&line, WIDTH)));
        out
    }
}

pub(super) struct Page<'a> {
    pub(super) out: &'a mut String,
    pub(super) style: Style,
}

impl Page<'_> {
    fn measured(&mut self, report: &Report) -> fmt::Result {
        match &report.measured {
            Measured::Together => self.table(report),
            Measured::Ladder(_) | Measured::Limit(_) => self.rungs(report),
            Measured::ColdStart(cold) => self.cold_start(cold),
            Measured::Loads | Measured::Contest { .. } => {
                report.runs.iter().try_for_each(|run| self.run(run))?;
                if report.runs.len() > 1 { self.summary(&report.runs) } else { Ok(()) }
            }
        }
    }

    fn run(&mut self, run: &Run) -> fmt::Result {
        self.head(run)?;
        let floor = run.floor.as_ref();
        self.out.push('\n');
        let titles = ["", "target", if floor.is_some() { "floor" } else { "" }];
        let [label, target, other] = titles;
        let ratio = if floor.is_some() { "  target ÷ floor: median, range" } else { "" };
        let line = format!("  {label:LABEL$}{target:>18}{other:>18}{ratio}");
        writeln!(self.out, "{}", self.style.dim(line.trim_end()))?;
        self.speed(run, floor)?;
        self.resources(run, floor)?;
        self.errors(run)?;
        self.drift(run)?;
        self.tools(run)?;
        self.tail(run)
    }

    pub(super) fn head(&mut self, run: &Run) -> fmt::Result {
        let (plan, target) = (&run.plan, &run.target);
        let title = format!("{} over {}", target.target, target.transport);
        writeln!(self.out, "{}", self.style.bold(&cut(&title, WIDTH)))?;
        self.profiled(run)?;
        self.server(target)?;
        let chosen = if plan.chosen { " (chosen by mcplane)" } else { "" };
        let bytes = format!("{} B out, {} B result", target.call_bytes, target.result_bytes);
        let call = match run.results.tools.len() {
            0 => format!("{}{chosen} · {bytes}", cut(&format!("{} {}", plan.tool, plan.args), 40)),
            kinds => format!("a mix of {kinds} kinds, below; the first: {bytes}"),
        };
        self.field("call", &call)?;
        let sessions = match plan.sessions {
            1 => String::new(),
            sessions => format!(" × {sessions} sessions"),
        };
        let pin = plan.pin.map(|cpu| format!(" · pinned to core {cpu}")).unwrap_or_default();
        self.field(
            "load",
            &format!(
                "{}{} in flight{sessions} (seen: mean {:.2}, max {}){pin}",
                plan.load_in(Words::Long),
                plan.concurrency,
                run.results.in_flight_mean,
                run.results.in_flight_max
            ),
        )?;
        self.schedule(run)?;
        let unsteady = |warmup: &Warmup| {
            let after = time(ns(Some(warmup.wall_ns)));
            format!(": still NOT steady after {after}")
        };
        let steady = match run.results.warmup.as_ref().map(|warmup| (warmup.steady, warmup)) {
            Some((Some(true), _)) => ", steady by then".to_owned(),
            Some((Some(false), warmup)) => self.style.red(&unsteady(warmup)),
            _ => String::new(),
        };
        let slices = match run.results.slices.len() {
            1 if plan.slices == 1 => "1 slice".to_owned(),
            measured if measured == plan.slices => format!("{measured} slices"),
            measured => format!("{measured} of {} slices", plan.slices),
        };
        self.field(
            "measured",
            &format!(
                "{} calls in {} over {slices}, after {} calls of warm-up{steady}",
                count(run.results.calls_sent),
                time(ns(Some(run.results.wall_ns))),
                count(plan.warmup_calls)
            ),
        )?;
        if let Some(headroom) = &run.headroom {
            let text = headroom.text();
            let bound = headroom.generator_bound;
            self.field("headroom", &if bound { self.style.red(&text) } else { text })?;
        }
        let start = &run.start;
        let at = |value| time(ns(Some(value)));
        self.field(
            "start",
            &format!(
                "handshake after {}, tools listed after {}; first call {}",
                at(start.spawn_to_handshake_ns),
                at(start.spawn_to_ready_ns),
                at(start.first_call_ns)
            ),
        )
    }

    fn server(&mut self, target: &TargetInfo) -> fmt::Result {
        let server = target.server.as_deref().unwrap_or("unnamed server");
        let version = target.version.as_deref().unwrap_or("");
        let (revision, era) = (&target.revision, &target.era);
        let tools = if target.tools == 1 { "1 tool" } else { &format!("{} tools", target.tools) };
        self.field(
            "server",
            &format!("{} · {revision} ({era}) · {tools}", format!("{server} {version}").trim_end()),
        )
    }

    fn speed(&mut self, run: &Run, floor: Option<&Results>) -> fmt::Result {
        let ratios = run.ratios.as_ref();
        let rate = |results: &Results| format!("{} calls/s", rate(results.throughput_per_s));
        let row = [rate(&run.results), floor.map(rate).unwrap_or_default()];
        self.row("throughput", row, ratios.and_then(|ratios| ratios.throughput))?;
        let latency = |results: &Results| {
            let of = &results.latency;
            let [p50, p90, p95, p99, p99_9] =
                [of.p50_ns, of.p90_ns, of.p95_ns, of.p99_ns, of.p99_9_ns];
            [
                ns(of.min_ns),
                of.mean_ns,
                ns(p50),
                ns(p90),
                ns(p95),
                ns(p99),
                ns(p99_9),
                ns(of.max_ns),
                of.stddev_ns,
            ]
        };
        let [p50, p90, p95, p99, p99_9] = QUANTILES.map(|(name, _)| name);
        let names = ["min", "mean", p50, p90, p95, p99, p99_9, "max", "std. deviation"];
        let (target, floor) = (latency(&run.results), floor.map(latency));
        for (index, (name, value)) in names.iter().zip(target).enumerate() {
            let other = floor.as_ref().and_then(|values| values.get(index)).copied();
            let ratio = ratios.and_then(|ratios| match *name {
                "p50" => ratios.p50,
                "p99" => ratios.p99,
                _ => None,
            });
            let row = [time(value), other.map(time).unwrap_or_default()];
            self.row(&format!("latency {name}"), row, ratio)?;
        }
        self.raw(run)
    }

    fn resources(&mut self, run: &Run, floor: Option<&Results>) -> fmt::Result {
        let of = |results: &Results| {
            let of = &results.resources;
            [
                time(of.cpu_ns_per_call),
                of.ctx_switches_per_call.map_or_else(na, |count| format!("{count:.2}")),
                bytes(of.rss_bytes_max),
                bytes(of.rss_bytes_end),
                [of.processes_max, of.threads_max, of.fds_max]
                    .map(|figure| figure.map_or_else(na, count))
                    .join(" / "),
            ]
        };
        if run.target.transport == Transport::Memory {
            // The server shares our own process: nothing can be told apart.
            return Ok(());
        }
        let names = [
            "CPU per call",
            "switches per call",
            "memory, most",
            "memory, at end",
            "procs/threads/fds",
        ];
        let (target, floor) = (of(&run.results), floor.map(of));
        for (index, (name, value)) in names.iter().zip(target).enumerate() {
            let other = floor.as_ref().and_then(|values| values.get(index)).cloned();
            let ratio = run.ratios.filter(|_| index == 0).and_then(|ratios| ratios.cpu_per_call);
            self.row(name, [value, other.unwrap_or_default()], ratio)?;
        }
        Ok(())
    }

    fn errors(&mut self, run: &Run) -> fmt::Result {
        let results = &run.results;
        let errors = &results.errors;
        let listed =
            errors.kinds().map(|(name, number)| format!("{name} {}", count(number))).join(" · ");
        self.out.push('\n');
        let failed = if errors.total() > 0 { self.style.red(&listed) } else { listed };
        self.field("succeeded", &format!("{} calls", count(results.calls_ok)))?;
        self.field("failed", &failed)?;
        if let Some(failure) = &results.first_failure {
            self.field("for example", &self.style.red(failure))?;
        }
        let checked = match run.plan.check {
            Checking::Equal | Checking::Stamped => "every result was compared with the first",
            Checking::Varies => "results were not compared: they change by themselves",
            Checking::Mix => "as each tool says, below",
            Checking::Off => "results were not compared (--no-check)",
        };
        self.field("check", checked)
    }

    fn profiled(&mut self, run: &Run) -> fmt::Result {
        let Some(profiler) = &run.profiled else { return Ok(()) };
        let words = format!("under {profiler}: none of these figures is a result");
        self.field("PROFILED", &self.style.red(&words))
    }

    fn drift(&mut self, run: &Run) -> fmt::Result {
        if run.drift.is_empty() {
            return Ok(());
        }
        let figure = |drift: &Drifting| {
            let text = drift.text();
            if drift.flagged { self.style.red(&text) } else { text }
        };
        let mut figures: Vec<_> = run.drift.iter().map(figure).collect();
        figures.extend(Drifting::untold(&run.drift));
        self.field("drift", &figures.join(", "))
    }

    fn tail(&mut self, run: &Run) -> fmt::Result {
        self.interrupted(slice::from_ref(run))?;
        if let Some(why) = &run.broken {
            self.field("broken off", &self.style.red(why))?;
        }
        for note in &run.notes {
            self.field("note", note)?;
        }
        self.out.push('\n');
        Ok(())
    }

    /// That the user stopped the runs, if so.
    pub(super) fn interrupted(&mut self, runs: &[Run]) -> fmt::Result {
        if !runs.iter().any(|run| run.interrupted) {
            return Ok(());
        }
        let unfinished = runs.iter().map(|run| run.results.calls_unfinished);
        let unfinished = count(unfinished.fold(0, u64::saturating_add));
        let text = format!("these are the results so far; {unfinished} calls unfinished");
        self.field("interrupted", &text)
    }

    /// A named line; what is too long for it continues below.
    pub(super) fn field(&mut self, name: &str, value: &str) -> fmt::Result {
        let name = self.style.dim(&format!("{name:<12}"));
        let mut lead = format!("  {name}");
        for line in value.lines().flat_map(|line| wrap(line, WIDTH - 14)) {
            writeln!(self.out, "{lead}{line}")?;
            lead = " ".repeat(14);
        }
        Ok(())
    }

    pub(super) fn row(
        &mut self,
        name: &str,
        [target, floor]: [String; 2],
        ratio: Option<Ratio>,
    ) -> fmt::Result {
        let mut line = format!("  {name:LABEL$}{target:>18}{floor:>18}");
        if let Some(ratio) = ratio {
            let _ = write!(line, "{:>11}", times(ratio.value()));
            if let Some((min, max)) = ratio.min.zip(ratio.max).filter(|(min, max)| min < max) {
                let range = format!("   {} to {}", digits(min), digits(max));
                line.push_str(&self.style.dim(&range));
            }
        }
        writeln!(self.out, "{}", line.trim_end())
    }
}

/// Lines of at most `width` columns, broken at spaces where there are any.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split(' ') {
        for (index, piece) in pieces(word, width).into_iter().enumerate() {
            let len = piece.chars().filter(|c| !c.is_control()).count();
            let space = usize::from(used > 0 && index == 0);
            if used + space + len > width || index > 0 {
                lines.push(String::new());
                used = 0;
            }
            if let Some(line) = lines.last_mut() {
                if used > 0 {
                    line.push(' ');
                    used += 1;
                }
                line.push_str(&piece);
                used += len;
            }
        }
    }
    lines
}

fn pieces(word: &str, width: usize) -> Vec<String> {
    let chars: Vec<char> = word.chars().collect();
    if chars.is_empty() {
        return vec![String::new()];
    }
    chars.chunks(width.max(1)).map(|piece| piece.iter().collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut_and_wrapped() {
        assert_eq!((cut("abcdef", 4), cut("abcd", 4)), ("abc…".to_owned(), "abcd".to_owned()));
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("abcdefghij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(wrap("", 4), [""]);
    }
}

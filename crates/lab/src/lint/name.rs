//! What a column name says: the quantity, its unit, and whose figure it is.

/// What a column counts or measures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Quantity {
    /// A quantile of the latency, as a share: 0.5 is the median.
    Percentile(f64),
    Mean,
    Min,
    Max,
    Stddev,
    /// A latency that does not say which.
    Latency,
    Throughput,
    /// Calls in flight; `Clients` for connections and workers, which may have more or fewer.
    InFlight,
    Clients,
    Duration,
    Samples,
    Batch,
    Sent,
    Received,
    Lost,
    Ok,
    Errors,
    SuccessRate,
    HitRate,
    /// Another share of a whole, which cannot be more than all of it.
    Share,
    Improvement,
    Cpu,
    Memory,
    Ratio,
    /// How many calls or tools take at least so many seconds.
    Part(f64),
    /// Repetitions, or how far they lie apart.
    Spread,
    Value,
    Other,
}

impl Quantity {
    /// A measured figure, as opposed to a setting.
    pub(super) const fn is_measured(self) -> bool {
        self.is_latency() || matches!(self, Self::Throughput)
    }

    pub(super) const fn is_latency(self) -> bool {
        use Quantity::{Latency, Max, Mean, Min, Percentile};
        matches!(self, Percentile(_) | Mean | Min | Max | Latency)
    }

    /// What comes in whole numbers.
    pub(super) const fn is_count(self) -> bool {
        use Quantity::{Batch, Clients, Errors, InFlight, Lost, Ok, Received, Samples, Sent};
        matches!(self, Batch | Clients | Errors | InFlight | Lost | Ok | Received | Samples | Sent)
    }

    pub(super) fn name(self) -> String {
        match self {
            Self::Percentile(share) => percentile_name(share),
            other => format!("{other:?}").to_lowercase(),
        }
    }
}

/// `p99.9` of 0.999.
pub(super) fn percentile_name(share: f64) -> String {
    let percent = (share * 1e8).round() / 1e6;
    format!("p{percent}")
}

/// What a unit measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dimension {
    Time,
    Rate,
    Bytes,
    Percent,
}

/// A unit: the base units are second, per second, byte and per cent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Unit {
    pub(super) dimension: Dimension,
    pub(super) scale: f64,
}

/// The unit that a word is, lower case and with `u` for micro.
pub(super) fn unit_of(word: &str) -> Option<Unit> {
    use Dimension::{Bytes, Percent, Time};
    let (dimension, scale) = match word {
        "ns" | "nsec" => (Time, 1e-9),
        "us" | "usec" | "microseconds" => (Time, 1e-6),
        "ms" | "msec" | "millis" | "milliseconds" => (Time, 1e-3),
        "s" | "sec" | "secs" | "second" | "seconds" => (Time, 1.0),
        "b" | "bytes" => (Bytes, 1.0),
        "kb" => (Bytes, 1e3),
        "kib" => (Bytes, 1024.0),
        "mb" => (Bytes, 1e6),
        "mib" => (Bytes, 1_048_576.0),
        "gb" => (Bytes, 1e9),
        "gib" => (Bytes, 1_073_741_824.0),
        "%" | "percent" | "pct" => (Percent, 1.0),
        _ => return None,
    };
    Some(Unit { dimension, scale })
}

/// A column by its name.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) quantity: Quantity,
    pub(super) unit: Option<Unit>,
    /// What tells it from another column of the same quantity: `4` of `throughput_4_per_s`.
    pub(super) side: String,
    /// What a ratio says that it is the ratio of.
    pub(super) of: Option<Quantity>,
}

impl Column {
    pub(super) fn new(name: &str) -> Self {
        let words = words(name);
        let has = |any: &[&str]| words.iter().any(|word| any.contains(&word.as_str()));
        let quantity = quantity(&words, &has);
        let mut unit = words.iter().find_map(|word| unit_of(word));
        if quantity == Quantity::Throughput {
            let scale = if has(&["kops", "krps", "kreq"]) { 1e3 } else { 1.0 };
            unit = Some(Unit { dimension: Dimension::Rate, scale });
        }
        let of = (quantity == Quantity::Ratio)
            .then(|| match statistic(&words) {
                None if has(&["throughput", "rate"]) => Some(Quantity::Throughput),
                other => other,
            })
            .flatten();
        let side: Vec<_> = words.iter().filter(|word| !is_plain(word)).cloned().collect();
        Self { name: name.trim().to_owned(), quantity, unit, side: side.join(" "), of }
    }
}

fn quantity(words: &[String], has: &dyn Fn(&[&str]) -> bool) -> Quantity {
    let share = has(&["rate", "ratio", "share", "%", "percent", "pct"]);
    let per_second = words.windows(2).any(|pair| {
        let [per, of] = pair else { return false };
        per == "per" && ["s", "sec", "second", "seconds"].contains(&of.as_str())
    });
    let rate = per_second || has(&["throughput", "rps", "qps", "tps", "kops", "krps", "kreq"]);
    let is_bytes = |unit: Unit| unit.dimension == Dimension::Bytes;
    let bytes = has(&["transfer", "bandwidth"])
        || words.iter().filter_map(|word| unit_of(word)).any(is_bytes);
    let part = words.iter().find_map(|word| duration(word));
    match statistic(words) {
        // What Little's law makes of other figures is a ratio of none of them.
        _ if has(&["unit", "units", "note", "warmup", "timeout", "target", "little"]) => {
            Quantity::Other
        }
        // The most that a process has of something is not a latency.
        Some(Quantity::Max | Quantity::Min)
            if has(&["fds", "processes", "threads"])
                && !words.iter().any(|word| unit_of(word).is_some()) =>
        {
            Quantity::Other
        }
        _ if share && has(&["success", "ok", "pass", "succeeded"]) => Quantity::SuccessRate,
        _ if share && has(&["hit", "hits"]) => Quantity::HitRate,
        _ if share && has(&["error", "errors", "failure", "failures", "loss", "lost"]) => {
            Quantity::Share
        }
        _ if has(&["reduction", "saving", "savings", "saved", "efficiency"]) => Quantity::Share,
        _ if has(&["improvement", "gain"]) => Quantity::Improvement,
        _ if has(&[
            "runs", "ci", "ci95", "rounds", "slices", "repeats", "iqr", "interval", "spread",
        ]) =>
        {
            Quantity::Spread
        }
        _ if has(&["speedup", "ratio", "faster", "slower", "relative", "vs"]) || words == ["x"] => {
            Quantity::Ratio
        }
        _ if has(&["cpu"]) => Quantity::Cpu,
        _ if has(&["rss", "pss", "memory", "mem", "heap", "ram"]) => Quantity::Memory,
        other if rate => match other {
            // The peak of a rate is not the rate, and bytes are not calls.
            _ if bytes => Quantity::Other,
            Some(Quantity::Stddev) => Quantity::Spread,
            None | Some(Quantity::Mean) => Quantity::Throughput,
            Some(Quantity::Percentile(share)) if (share - 0.5).abs() < 1e-9 => Quantity::Throughput,
            Some(_) => Quantity::Other,
        },
        _ if has(&["inflight", "concurrency", "outstanding"])
            || words.windows(2).any(|pair| pair == ["in", "flight"]) =>
        {
            Quantity::InFlight
        }
        _ if has(&["clients", "connections", "workers", "users", "vus"]) => Quantity::Clients,
        Some(statistic) => statistic,
        None => count(has, part),
    }
}

fn count(has: &dyn Fn(&[&str]) -> bool, part: Option<f64>) -> Quantity {
    match part {
        Some(seconds) if has(&["tools", "calls", "requests", "share", "weight", "n"]) => {
            return Quantity::Part(seconds);
        }
        _ => {}
    }
    let pairs: [(&[&str], Quantity); 11] = [
        (&["batch"], Quantity::Batch),
        (&["sent"], Quantity::Sent),
        (&["received", "recv"], Quantity::Received),
        (&["lost", "dropped", "unanswered"], Quantity::Lost),
        (&["errors", "error", "failed", "failures", "err", "timeouts"], Quantity::Errors),
        (&["ok", "succeeded", "successes", "successful", "passed"], Quantity::Ok),
        (&["latency", "rtt"], Quantity::Latency),
        (&["duration", "elapsed", "wall", "runtime"], Quantity::Duration),
        (&["samples", "n", "iterations", "requests", "operations", "ops"], Quantity::Samples),
        (&["calls", "count", "messages"], Quantity::Samples),
        (&["value"], Quantity::Value),
    ];
    pairs.into_iter().find(|(any, _)| has(any)).map_or(Quantity::Other, |(_, quantity)| quantity)
}

/// The statistic that the words name.
pub(super) fn statistic(words: &[String]) -> Option<Quantity> {
    words.iter().find_map(|word| match word.as_str() {
        "median" => Some(Quantity::Percentile(0.5)),
        "mean" | "avg" | "average" => Some(Quantity::Mean),
        "min" | "minimum" | "fastest" => Some(Quantity::Min),
        "max" | "maximum" | "slowest" => Some(Quantity::Max),
        "stddev" | "stdev" | "sd" | "std" => Some(Quantity::Stddev),
        word => percentile(word),
    })
}

/// `p50`, `p999`, `p99.9`, `99th`, `99%ile`.
fn percentile(word: &str) -> Option<Quantity> {
    let digits = match word.strip_prefix('p') {
        Some(digits) => digits,
        None => word.strip_suffix("th").or_else(|| word.strip_suffix("%ile"))?,
    };
    if !digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return None;
    }
    let share = match (digits.len(), digits.contains('.')) {
        (1..=2, false) | (_, true) => (digits.parse::<f64>().ok()? * 1e4).round() / 1e6,
        // p999 is the nines written without the point; p100 is the greatest.
        (3..=6, false) if digits == "100" => return Some(Quantity::Max),
        (3..=6, false) => format!("0.{digits}").parse().ok()?,
        _ => return None,
    };
    (share > 0.0 && share < 1.0).then_some(Quantity::Percentile(share))
}

/// `50ms` in seconds.
pub(super) fn duration(word: &str) -> Option<f64> {
    let at = word.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = word.split_at_checked(at)?;
    let unit = unit_of(unit).filter(|unit| unit.dimension == Dimension::Time)?;
    number.parse::<f64>().ok().filter(|n| *n > 0.0).map(|n| n * unit.scale)
}

/// Words of a name, lower case: `p99_9_ns` is `p99.9`, `ns`; `calls/s` is `calls`, `per`, `s`.
pub(super) fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    for c in name.chars().map(|c| if matches!(c, 'µ' | 'μ') { 'u' } else { c }) {
        let word = c.is_alphanumeric() || (matches!(c, '.' | '%') && before.is_ascii_digit());
        let hump = c.is_uppercase() && before.is_lowercase();
        if !word || hump {
            words.push(String::new());
        }
        match c {
            '/' => words.extend(["per".to_owned(), String::new()]),
            '%' if !word => words.extend(["%".to_owned(), String::new()]),
            _ if word => {
                if let Some(last) = words.last_mut() {
                    last.extend(c.to_lowercase());
                }
            }
            _ => {}
        }
        before = c;
    }
    words.retain(|word| !word.is_empty());
    join_nines(words)
}

/// `p99`, `9` and `p99`, `99` are one percentile; `p99`, `1` is that of side 1.
fn join_nines(words: Vec<String>) -> Vec<String> {
    let mut joined: Vec<String> = Vec::new();
    for word in words {
        let nines = word.bytes().all(|byte| byte == b'9');
        match joined.last_mut() {
            Some(last) if nines && last == "p99" => *last = format!("p99.{word}"),
            _ => joined.push(word),
        }
    }
    joined
}

/// Words that do not tell one side from another.
fn is_plain(word: &str) -> bool {
    const PLAIN: &[&str] = &[
        "latency",
        "time",
        "response",
        "request",
        "requests",
        "req",
        "call",
        "calls",
        "op",
        "ops",
        "operations",
        "msg",
        "msgs",
        "message",
        "messages",
        "per",
        "rtt",
        "in",
        "of",
        "at",
        "the",
        "total",
        "duration",
        "value",
        "throughput",
        "rps",
        "qps",
        "tps",
        "kops",
        "krps",
        "kreq",
        "rate",
        "results",
        "median",
        "mean",
        "avg",
        "average",
        "min",
        "minimum",
        "fastest",
        "max",
        "maximum",
        "slowest",
        "stddev",
        "stdev",
        "sd",
        "std",
        "sent",
        "received",
        "recv",
        "lost",
        "errors",
        "error",
        "failed",
        "failures",
        "err",
        "timeouts",
        "ok",
        "samples",
        "n",
        "iterations",
        "count",
        "percentile",
        "success",
        "%",
    ];
    PLAIN.contains(&word) || unit_of(word).is_some() || percentile(word).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quantities_with_units_and_sides() {
        use Quantity::*;
        let of = |name: &str| {
            let column = Column::new(name);
            (column.quantity, column.unit.map(|unit| unit.scale), column.side)
        };
        let none = String::new;
        assert_eq!(of("p50_us"), (Percentile(0.5), Some(1e-6), none()));
        assert_eq!(of("p999_us"), (Percentile(0.999), Some(1e-6), none()));
        assert_eq!(of("p99_9_ns"), (Percentile(0.999), Some(1e-9), none()));
        assert_eq!(of("P99.9 (µs)"), (Percentile(0.999), Some(1e-6), none()));
        assert_eq!(of("p99_1_ms"), (Percentile(0.99), Some(1e-3), "1".into()));
        assert_eq!(of("latency_max_us"), (Max, Some(1e-6), none()));
        assert_eq!(of("avg latency (ms)"), (Mean, Some(1e-3), none()));
        assert_eq!(of("throughput_4_per_s"), (Throughput, Some(1.0), "4".into()));
        assert_eq!(of("throughput_msg_per_s"), (Throughput, Some(1.0), none()));
        assert_eq!(of("Ops/sec"), (Throughput, Some(1.0), none()));
        assert_eq!(of("in_flight").0, InFlight);
        assert_eq!(of("in flight").0, InFlight);
        assert_eq!(of("workers").0, Clients);
        assert_eq!(of("tools_200ms").0, Part(0.2));
        assert_eq!(of("iterations").0, Samples);
        assert_eq!(of("warmup").0, Other);
        assert_eq!(of("memory_rss_mib_per_node").0, Memory);
        assert_eq!(of("messages_sent").0, Sent);
        assert_eq!(of("success rate (%)").0, SuccessRate);
        assert_eq!(of("duration_s"), (Duration, Some(1.0), none()));
        assert_eq!(of("max_rps").0, Other);
        assert_eq!(of("resources_fds_max").0, Other);
        assert_eq!(of("max_ms_4_threads").0, Max);
        assert_eq!(of("mean throughput").0, Throughput);
        assert_eq!(of("Transfer/s").0, Other);
        assert_eq!(of("MB/s").0, Other);
        assert_eq!(of("throughput stddev").0, Spread);
        let ratio = Column::new("claimed_ratio_at_p50");
        assert_eq!((ratio.quantity, ratio.of), (Ratio, Some(Percentile(0.5))));
    }
}

//! What was recorded, as the figures of a result.

use super::{Interval, Paced, Seconds, Total, ns};
use crate::results::{Little, Open, Second};

impl Open {
    #[allow(clippy::cast_precision_loss, reason = "a report needs three digits")]
    pub(crate) fn of(total: &Total, paced: &Paced) -> Self {
        Self {
            calls_due: total.sent + paced.missed,
            calls_missed: paced.missed,
            calls_blocked: paced.blocked,
            calls_late: paced.late,
            late_share: paced.late as f64 / total.sent.max(1) as f64,
            lateness_max_ns: ns(paced.lateness_max),
            pacing_error_p50_ns: paced.pacing.quantile_ns(0.5),
            pacing_error_p99_ns: paced.pacing.quantile_ns(0.99),
            latency_raw: paced.raw.summary(),
            latency_raw_histogram: paced.raw.encode(),
        }
    }
}

impl Second {
    pub(crate) fn all(seconds: &Seconds) -> Vec<Self> {
        let second = |(start, length, interval): (_, _, Interval)| {
            let latencies = interval.latencies();
            Self {
                start_ns: ns(start),
                length_ns: ns(length),
                calls_ok: latencies.count(),
                errors: interval.errors,
                p50_ns: latencies.quantile_ns(0.5),
                p99_ns: latencies.quantile_ns(0.99),
                latency_histogram: latencies.encode(),
            }
        };
        seconds.intervals().into_iter().map(second).collect()
    }
}

impl Little {
    #[allow(clippy::cast_precision_loss, reason = "a report needs three digits")]
    pub(crate) fn of(total: &Total) -> Self {
        let raw = total.paced.as_ref().map_or(&total.latencies, |paced| &paced.raw);
        let raw = raw.summary();
        let ok_s = raw.mean_ns.unwrap_or_default() / 1e9 * raw.count as f64;
        let in_flight_mean = total.in_flight_mean();
        let rate_times_latency =
            (ok_s + total.failed_time.as_secs_f64()) / total.wall.as_secs_f64().max(1e-9);
        let ratio = (rate_times_latency > 0.0).then(|| in_flight_mean / rate_times_latency);
        Self { in_flight_mean, rate_times_latency, ratio }
    }
}

//! What a side's processes used over the measured time, in memory that does not grow with the run.

use std::time::Duration;

use mcplane_process::observe::Usage;

use super::Spent;
use crate::record::ns;
use crate::results::ResourceSecond;

/// Most rows that are kept. A longer run has longer ones: their length doubles.
const ROWS_MAX: usize = 600;

/// The first length of a row.
const LENGTH: Duration = Duration::from_secs(1);

/// The rows of one side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Course {
    length: Duration,
    /// Those that are over.
    rows: Vec<ResourceSecond>,
    current: ResourceSecond,
}

impl Default for Course {
    fn default() -> Self {
        Self { length: LENGTH, rows: Vec::new(), current: ResourceSecond::default() }
    }
}

impl Course {
    /// Adds what was used in `time`, up to a look that saw `usage`. Returns the row that this ended,
    /// if it did.
    pub(crate) fn add(
        &mut self,
        time: Duration,
        spent: &Spent,
        usage: &Usage,
    ) -> Option<ResourceSecond> {
        let row = &mut self.current;
        row.length_ns += ns(time);
        row.cpu_user_ns += spent.user_ns;
        row.cpu_system_ns += spent.system_ns;
        row.ctx_switches += spent.switches;
        row.see(usage);
        self.is_due().then(|| self.turn())
    }

    /// Adds what was seen later.
    pub(crate) fn join(&mut self, later: &Self) {
        for row in later.all() {
            self.current.merge(&row);
            if self.is_due() {
                self.turn();
            }
        }
    }

    /// Every row, the one that is not over as well.
    pub(crate) fn all(&self) -> Vec<ResourceSecond> {
        let current = (self.current.length_ns > 0).then_some(self.current);
        self.rows.iter().copied().chain(current).collect()
    }

    /// A look more would make the row longer than it should be by more than it is short now.
    fn is_due(&self) -> bool {
        self.current.length_ns + ns(super::EVERY) / 2 >= ns(self.length)
    }

    /// Ends the current row.
    fn turn(&mut self) -> ResourceSecond {
        let row = self.current;
        let start_ns = row.start_ns + row.length_ns;
        self.current = ResourceSecond { start_ns, ..ResourceSecond::default() };
        self.rows.push(row);
        if self.rows.len() >= ROWS_MAX {
            self.coarsen();
        }
        row
    }

    /// Merges neighbours: each row becomes twice as long.
    fn coarsen(&mut self) {
        self.length *= 2;
        let merged = |pair: &[ResourceSecond]| {
            let (first, rest) = pair.split_first()?;
            let mut row = *first;
            rest.iter().for_each(|next| row.merge(next));
            Some(row)
        };
        self.rows = self.rows.chunks(2).filter_map(merged).collect();
    }
}

impl ResourceSecond {
    fn see(&mut self, usage: &Usage) {
        self.rss_bytes = self.rss_bytes.max(usage.rss_bytes);
        self.pss_bytes = self.pss_bytes.max(usage.pss_bytes);
        self.fds = self.fds.max(usage.fds);
        self.threads = self.threads.max(usage.threads);
        self.processes = self.processes.max(usage.processes);
    }

    /// Adds the row after it.
    fn merge(&mut self, next: &Self) {
        self.length_ns += next.length_ns;
        self.cpu_user_ns += next.cpu_user_ns;
        self.cpu_system_ns += next.cpu_system_ns;
        self.ctx_switches += next.ctx_switches;
        self.rss_bytes = self.rss_bytes.max(next.rss_bytes);
        self.pss_bytes = self.pss_bytes.max(next.pss_bytes);
        self.fds = self.fds.max(next.fds);
        self.threads = self.threads.max(next.threads);
        self.processes = self.processes.max(next.processes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn usage(rss_bytes: u64) -> Usage {
        let mut usage = Usage::default();
        (usage.rss_bytes, usage.fds, usage.threads) = (rss_bytes, 7, 3);
        usage
    }

    fn fed(course: &mut Course, looks: u64, every: Duration) {
        let spent = Spent { cpu_ns: 30, user_ns: 20, system_ns: 10, switches: 2 };
        for look in 0..looks {
            course.add(every, &spent, &usage(1000 + look));
        }
    }

    #[test]
    fn looks_add_up_to_seconds() {
        let mut course = Course::default();
        fed(&mut course, 10, Duration::from_millis(260));
        let rows = course.all();
        assert_eq!(rows.len(), 3, "{rows:?}");
        let want = ResourceSecond {
            start_ns: 1_040_000_000,
            length_ns: 1_040_000_000,
            cpu_user_ns: 80,
            cpu_system_ns: 40,
            rss_bytes: 1007,
            pss_bytes: None,
            fds: 7,
            threads: 3,
            processes: 0,
            ctx_switches: 8,
        };
        assert_eq!(rows[1], want);
        assert_eq!((rows[2].start_ns, rows[2].length_ns), (2_080_000_000, 520_000_000));
        let busy = ResourceSecond { cpu_user_ns: S, cpu_system_ns: S, length_ns: S, ..want };
        assert!((busy.cores() - 2.0).abs() < 1e-9);
    }

    #[test]
    fn a_long_run_has_longer_rows_and_loses_nothing() {
        let mut course = Course::default();
        fed(&mut course, 8 * 3600, Duration::from_millis(250));
        let rows = course.all();
        assert!((ROWS_MAX / 2..=ROWS_MAX).contains(&rows.len()), "{}", rows.len());
        assert_eq!(rows.iter().map(|row| row.length_ns).sum::<u64>(), 7200 * S);
        assert_eq!(rows.iter().map(|row| row.ctx_switches).sum::<u64>(), 2 * 8 * 3600);
        assert_eq!(rows.iter().map(|row| row.rss_bytes).max(), Some(1000 + 8 * 3600 - 1));
        assert!(rows.windows(2).all(|two| two[0].start_ns + two[0].length_ns == two[1].start_ns));
    }

    #[test]
    fn what_was_seen_later_follows() {
        let (mut first, mut later) = (Course::default(), Course::default());
        fed(&mut first, 6, Duration::from_millis(250));
        fed(&mut later, 6, Duration::from_millis(250));
        first.join(&later);
        let rows = first.all();
        assert_eq!(rows.iter().map(|row| row.length_ns).sum::<u64>(), 3 * S);
        assert_eq!(rows.last().map(|row| row.start_ns + row.length_ns), Some(3 * S));
    }
}

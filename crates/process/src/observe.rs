//! What a process tree uses: CPU, memory, descriptors, threads, context switches.
//!
//! Read from `/proc` as proc(5) describes it; on systems without it every function returns `None`.
//! A sample is not an instant: processes that start or end while it is taken may be missed.

use std::iter::Sum;
use std::ops::Add;

/// What a process tree uses at one moment. Differences of two samples should saturate: a thread or
/// process that ended in between takes figures with it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// CPU time in user mode, in nanoseconds, of all processes and of the children that they have
    /// waited for. See [`Usage::cpu_ns`].
    pub cpu_ns_user: u64,
    /// CPU time in the kernel, in nanoseconds, likewise.
    pub cpu_ns_system: u64,
    /// Resident memory, in bytes (`statm`). Pages shared by several processes count in each; the
    /// kernel keeps the figure loosely, within some hundred KiB.
    pub rss_bytes: u64,
    /// Resident memory with each shared page split among its users, in bytes (`Pss` of
    /// `smaps_rollup`). `None` if not asked for or if one process may not be read.
    pub pss_bytes: Option<u64>,
    /// Open file descriptors. A process that may not be read counts none.
    pub fds: u64,
    /// Threads.
    pub threads: u64,
    /// Processes, without zombies.
    pub processes: u64,
    /// Times that a living thread gave up the CPU to wait (`voluntary_ctxt_switches`).
    pub ctx_switches_voluntary: u64,
    /// Times that a living thread was taken off the CPU (`nonvoluntary_ctxt_switches`).
    pub ctx_switches_involuntary: u64,
}

impl Usage {
    /// All CPU time, in nanoseconds: the figure to compare.
    ///
    /// Per process it is the greater of two: the exact run time of its living threads
    /// (`task/*/schedstat`), and the time in clock ticks of 10 ms, which includes threads that
    /// ended. Children that ended are known in clock ticks only. The kernel splits user from system
    /// by sampling, so that each of the two is less exact than their sum.
    #[must_use]
    pub fn cpu_ns(&self) -> u64 {
        self.cpu_ns_user.saturating_add(self.cpu_ns_system)
    }
}

impl Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            cpu_ns_user: self.cpu_ns_user + other.cpu_ns_user,
            cpu_ns_system: self.cpu_ns_system + other.cpu_ns_system,
            rss_bytes: self.rss_bytes + other.rss_bytes,
            pss_bytes: self.pss_bytes.zip(other.pss_bytes).map(|(a, b)| a + b),
            fds: self.fds + other.fds,
            threads: self.threads + other.threads,
            processes: self.processes + other.processes,
            ctx_switches_voluntary: self.ctx_switches_voluntary + other.ctx_switches_voluntary,
            ctx_switches_involuntary: self.ctx_switches_involuntary
                + other.ctx_switches_involuntary,
        }
    }
}

/// Sums processes; the PSS is known if it is known of each.
impl Sum for Usage {
    fn sum<I: Iterator<Item = Self>>(processes: I) -> Self {
        processes.fold(Self { pss_bytes: Some(0), ..Self::default() }, Add::add)
    }
}

/// A process, its descendants, and the members of the group that it leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    pids: Vec<u32>,
}

impl Tree {
    /// The tree under `pid`; `None` if there is no such process or no `/proc`. Reads one line of
    /// every process of the machine, some microseconds each.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        source::pids(pid).map(|pids| Self { pids })
    }

    /// The pids, the root first.
    #[must_use]
    pub fn pids(&self) -> &[u32] {
        &self.pids
    }

    /// What the tree under `pid` uses now. Reading the PSS makes the kernel walk page tables, up to
    /// milliseconds during which the process cannot map memory: for before and after, not for
    /// during a measurement.
    #[must_use]
    pub fn sample(pid: u32) -> Option<Usage> {
        Self::of(pid).map(|tree| tree.usage(true))
    }

    /// Like [`Tree::sample`], without the PSS: cheap enough for several times a second.
    #[must_use]
    pub fn glance(pid: u32) -> Option<Usage> {
        let usage = Self::of(pid).map(|tree| tree.usage(false))?;
        Some(Usage { pss_bytes: None, ..usage })
    }

    fn usage(&self, with_pss: bool) -> Usage {
        self.pids.iter().filter_map(|pid| source::usage(*pid, with_pss)).sum()
    }
}

#[cfg(not(target_os = "linux"))]
mod source {
    use super::Usage;

    pub(super) fn pids(_: u32) -> Option<Vec<u32>> {
        None
    }

    pub(super) fn usage(_: u32, _: bool) -> Option<Usage> {
        None
    }
}

#[cfg(target_os = "linux")]
mod source {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::Usage;

    pub(super) fn pids(root: u32) -> Option<Vec<u32>> {
        let all: Vec<Stat> = numbers(Path::new("/proc")).filter_map(Stat::read).collect();
        all.iter().find(|stat| stat.pid == root)?;
        let mut found = BTreeSet::from([root]);
        let mut pids = vec![root];
        // Each round finds the children of the last; a tree is rarely deeper than three.
        loop {
            let is_new = |stat: &&Stat| {
                (found.contains(&stat.parent) || stat.group == root) && !found.contains(&stat.pid)
            };
            let round: Vec<u32> = all.iter().filter(is_new).map(|stat| stat.pid).collect();
            if round.is_empty() {
                return Some(pids);
            }
            found.extend(&round);
            pids.extend(round);
        }
    }

    /// One process; `None` if it has ended.
    pub(super) fn usage(pid: u32, with_pss: bool) -> Option<Usage> {
        let stat = Stat::read(pid)?;
        let folder = PathBuf::from(format!("/proc/{pid}"));
        let threads = Threads::read(&folder.join("task"));
        let (user, system) = stat.cpu_ns(threads.cpu_ns);
        if stat.is_zombie {
            let pss_bytes = Some(0);
            return Some(Usage {
                cpu_ns_user: user,
                cpu_ns_system: system,
                pss_bytes,
                ..Usage::default()
            });
        }
        Some(Usage {
            cpu_ns_user: user,
            cpu_ns_system: system,
            rss_bytes: rss_bytes(&folder),
            pss_bytes: with_pss.then(|| pss_bytes(&folder)).flatten(),
            fds: fs::read_dir(folder.join("fd")).map_or(0, |fds| fds.count() as u64),
            threads: stat.threads,
            processes: 1,
            ctx_switches_voluntary: threads.voluntary,
            ctx_switches_involuntary: threads.involuntary,
        })
    }

    /// What we need of `/proc/PID/stat`. Times are in clock ticks.
    #[derive(Debug, PartialEq, Eq)]
    struct Stat {
        pid: u32,
        is_zombie: bool,
        parent: u32,
        group: u32,
        user: u64,
        system: u64,
        user_children: u64,
        system_children: u64,
        threads: u64,
    }

    impl Stat {
        fn read(pid: u32) -> Option<Self> {
            Self::parse(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
        }

        /// The second field is the program's name in parentheses; it may hold anything.
        fn parse(pid: u32, line: &str) -> Option<Self> {
            let fields: Vec<&str> = line.rsplit_once(')')?.1.split_ascii_whitespace().collect();
            let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
            Some(Self {
                pid,
                is_zombie: matches!(fields.first(), Some(&("Z" | "X"))),
                parent: field(4)?.try_into().ok()?,
                group: field(5)?.try_into().ok()?,
                user: field(14)?,
                system: field(15)?,
                user_children: field(16)?,
                system_children: field(17)?,
                threads: field(20)?,
            })
        }

        /// User and system time: the exact total split in the proportion of the ticks, plus what
        /// the children that were waited for have used.
        fn cpu_ns(&self, threads_ns: u64) -> (u64, u64) {
            let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
            let ticks = self.user + self.system;
            let own = threads_ns.max(ticks * tick_ns);
            let system = if ticks == 0 { 0 } else { share(own, self.system, ticks) };
            let user = own - system;
            (user + self.user_children * tick_ns, system + self.system_children * tick_ns)
        }
    }

    fn share(total: u64, part: u64, whole: u64) -> u64 {
        let share = u128::from(total) * u128::from(part) / u128::from(whole);
        u64::try_from(share).unwrap_or(total)
    }

    /// What is known per thread only.
    #[derive(Default)]
    struct Threads {
        cpu_ns: u64,
        voluntary: u64,
        involuntary: u64,
    }

    impl Threads {
        fn read(folder: &Path) -> Self {
            let mut sum = Self::default();
            for thread in numbers(folder) {
                let thread = folder.join(thread.to_string());
                let text = |name| fs::read_to_string(thread.join(name)).unwrap_or_default();
                let first = text("schedstat");
                sum.cpu_ns += first.split(' ').next().map_or(0, number);
                let status = text("status");
                sum.voluntary += labelled(&status, "voluntary_ctxt_switches:").unwrap_or(0);
                sum.involuntary += labelled(&status, "nonvoluntary_ctxt_switches:").unwrap_or(0);
            }
            sum
        }
    }

    fn rss_bytes(folder: &Path) -> u64 {
        let statm = fs::read_to_string(folder.join("statm")).unwrap_or_default();
        statm.split(' ').nth(1).map_or(0, number) * rustix::param::page_size() as u64
    }

    fn pss_bytes(folder: &Path) -> Option<u64> {
        let rollup = fs::read_to_string(folder.join("smaps_rollup")).ok()?;
        labelled(&rollup, "Pss:").map(|kib| kib * 1024)
    }

    /// The number on the line that starts with `label`.
    fn labelled(text: &str, label: &str) -> Option<u64> {
        let rest = text.lines().find_map(|line| line.strip_prefix(label))?;
        rest.split_ascii_whitespace().next()?.parse().ok()
    }

    fn number(text: &str) -> u64 {
        text.trim().parse().unwrap_or(0)
    }

    /// The entries of a folder whose names are numbers.
    fn numbers(folder: &Path) -> impl Iterator<Item = u32> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        const LINE: &str = "7 (a) b (c)) S 3 5 5 0 -1 4194560 1 2 3 4 150 50 20 10 20 0 9 0 1 2 3";

        #[test]
        fn a_name_may_hold_anything() {
            let stat = Stat::parse(7, LINE).unwrap();
            assert_eq!((stat.parent, stat.group, stat.threads), (3, 5, 9));
            assert_eq!((stat.user, stat.system), (150, 50));
            assert_eq!((stat.user_children, stat.system_children), (20, 10));
            assert_eq!(Stat::parse(7, "7 (x) S 1"), None);
        }

        #[test]
        fn the_exact_total_is_split_by_the_ticks() {
            let stat = Stat::parse(7, LINE).unwrap();
            let tick = 1_000_000_000 / rustix::param::clock_ticks_per_second();
            assert_eq!(stat.cpu_ns(204 * tick), (153 * tick + 20 * tick, 51 * tick + 10 * tick));
            assert_eq!(stat.cpu_ns(0), (170 * tick, 60 * tick));
        }
    }
}

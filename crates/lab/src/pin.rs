//! Keeping the generator, and the servers that it starts, on one core.

pub(crate) use os::{Affinity, pin};

#[cfg(target_os = "linux")]
mod os {
    use std::io;

    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    /// The cores that a thread was allowed before it was pinned.
    #[derive(Clone, Debug)]
    pub(crate) struct Affinity(CpuSet);

    impl Affinity {
        /// Allows this thread those cores again. A refusal leaves it where it is.
        pub(crate) fn restore(&self) {
            let _ = sched_setaffinity(None, &self.0);
        }
    }

    /// Pins this thread, and what it starts from now on, to one core.
    pub(crate) fn pin(cpu: usize) -> io::Result<Affinity> {
        let before = sched_getaffinity(None)?;
        let no_such = || io::Error::other("this process may not run on that core");
        if cpu >= CpuSet::MAX_CPU || !before.is_set(cpu) {
            return Err(no_such());
        }
        let mut one = CpuSet::new();
        one.set(cpu);
        sched_setaffinity(None, &one)?;
        Ok(Affinity(before))
    }
}

#[cfg(not(target_os = "linux"))]
mod os {
    use std::io;

    /// The cores that a thread was allowed before it was pinned.
    #[derive(Clone, Debug)]
    pub(crate) struct Affinity;

    impl Affinity {
        /// Nothing was changed.
        pub(crate) fn restore(&self) {}
    }

    /// Not possible here.
    pub(crate) fn pin(_: usize) -> io::Result<Affinity> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_has_one_core_and_gets_the_others_back() {
        let cores = || std::thread::available_parallelism().unwrap().get();
        let before = cores();
        let affinity = (0..1024).find_map(|cpu| pin(cpu).ok()).unwrap();
        assert_eq!(cores(), 1);
        assert!(pin(1_000_000).is_err());
        affinity.restore();
        assert_eq!(cores(), before);
    }
}

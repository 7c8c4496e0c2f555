//! Keeping the generator, and the servers that it starts, on one core.

use crate::Error;
use crate::spec::{Field, SpecError};

pub(crate) use os::Affinity;

/// What `work` gives on this thread, which runs on one core meanwhile, as does what it starts;
/// without a core, where it is.
///
/// # Errors
/// [`Error::Spec`] when this process may not use the core; [`Error::Machine`]
/// when none can be chosen here.
pub fn pinned<T>(cpu: Option<usize>, work: impl FnOnce() -> T) -> Result<T, Error> {
    let before = pin(cpu)?;
    let value = work();
    if let Some(before) = before {
        before.restore();
    }
    Ok(value)
}

/// Keeps this thread, and what it starts from now on, on this core; returns the cores that it had.
pub(crate) fn pin(cpu: Option<usize>) -> Result<Option<Affinity>, Error> {
    let Some(cpu) = cpu else { return Ok(None) };
    match os::pin(cpu) {
        Ok(Some(before)) => Ok(Some(before)),
        Ok(None) => {
            let takes = "the number of a core that this process may run on";
            Err(SpecError::value(Field::Pin, cpu, takes).into())
        }
        Err(source) => Err(Error::Machine { what: format!("--pin {cpu}"), source }),
    }
}

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

    /// `None` if this process may not run on that core.
    pub(super) fn pin(cpu: usize) -> io::Result<Option<Affinity>> {
        let before = sched_getaffinity(None)?;
        if cpu >= CpuSet::MAX_CPU || !before.is_set(cpu) {
            return Ok(None);
        }
        let mut one = CpuSet::new();
        one.set(cpu);
        sched_setaffinity(None, &one)?;
        Ok(Some(Affinity(before)))
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
    pub(super) fn pin(_: usize) -> io::Result<Option<Affinity>> {
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
        let affinity = (0..1024).find_map(|cpu| pin(Some(cpu)).ok()?).unwrap();
        assert_eq!(cores(), 1);
        let no_such = pin(Some(1_000_000)).unwrap_err();
        assert!(no_such.is_usage() && no_such.to_string().starts_with("pin: got 1000000"));
        affinity.restore();
        assert_eq!(cores(), before);
        let cpu = (0..1024).find(|cpu| pinned(Some(*cpu), cores).is_ok_and(|cores| cores == 1));
        assert!(cpu.is_some() && pinned(Some(1_000_000), cores).is_err());
        assert_eq!((cores(), pinned(None, cores).unwrap()), (before, before));
    }
}

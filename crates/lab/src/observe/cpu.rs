//! The CPU time of a thread of ours.

use std::time::Duration;

/// The CPU time that this thread has used; `None` where it is not known.
pub(crate) fn cpu_time() -> Option<Duration> {
    #[cfg(target_os = "linux")]
    return Duration::try_from(rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime))
        .ok();
    #[cfg(not(target_os = "linux"))]
    None
}

/// The CPU time that this thread has used since an earlier reading.
pub(crate) fn cpu_since(before: Option<Duration>) -> Option<Duration> {
    cpu_time().zip(before).map(|(now, before)| now.saturating_sub(before))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn this_thread_has_a_clock() {
        let before = cpu_time();
        assert!(before.is_some() && cpu_since(before).is_some());
    }
}

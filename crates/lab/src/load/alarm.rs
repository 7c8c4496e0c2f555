//! Waking up at an instant, finer than the runtime's millisecond.

pub(crate) use os::{Alarm, sharpen};

#[cfg(target_os = "linux")]
mod os {
    use std::io;
    use std::num::NonZeroU64;
    use std::os::fd::AsFd;
    use std::pin::Pin;
    use std::task::{Context, Poll};
    use std::time::{Duration, Instant};

    use rustix::thread::set_current_timer_slack;
    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };
    use tokio::io::{AsyncRead, ReadBuf};
    use tokio::net::unix::pipe::Receiver;

    /// A timer of the kernel among what the runtime waits for.
    pub(crate) struct Alarm {
        /// Read like a pipe: eight bytes each time it has gone off.
        timer: Receiver,
        set_for: Option<Instant>,
    }

    impl Alarm {
        /// A timer that is not set. Must be called within the runtime.
        pub(crate) fn new() -> io::Result<Self> {
            let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
            let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
            Ok(Self { timer: Receiver::from_owned_fd_unchecked(timer)?, set_for: None })
        }

        /// Ready once `at` has passed.
        pub(crate) fn poll_at(
            &mut self,
            at: Instant,
            cx: &mut Context<'_>,
        ) -> Poll<io::Result<()>> {
            if self.set_for != Some(at) {
                // All zeros would switch it off.
                let left =
                    at.saturating_duration_since(Instant::now()).max(Duration::from_nanos(1));
                let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
                let value = Timespec::try_from(left).map_err(|_| io::ErrorKind::InvalidInput)?;
                let once = Itimerspec { it_interval: zero, it_value: value };
                timerfd_settime(self.timer.as_fd(), TimerfdTimerFlags::empty(), &once)?;
                self.set_for = Some(at);
            }
            // More room than it fills: the runtime then knows that nothing is left to read.
            let mut expirations = [0; 16];
            let mut buffer = ReadBuf::new(&mut expirations);
            let read = Pin::new(&mut self.timer).poll_read(cx, &mut buffer);
            if read.is_ready() {
                self.set_for = None;
            }
            read
        }
    }

    /// Lets this thread's waits end on the nanosecond that was asked for, not up to 50 µs later.
    pub(crate) fn sharpen() {
        // A refusal leaves the pacing coarser, which is measured.
        let _ = set_current_timer_slack(NonZeroU64::new(1));
    }
}

#[cfg(not(target_os = "linux"))]
mod os {
    use std::io;
    use std::pin::Pin;
    use std::task::{Context, Poll};
    use std::time::Instant;

    use tokio::time::{Sleep, sleep_until};

    /// The runtime's own timer, good to a millisecond.
    pub(crate) struct Alarm(Pin<Box<Sleep>>);

    impl Alarm {
        /// A timer that is not set. Must be called within the runtime.
        pub(crate) fn new() -> io::Result<Self> {
            Ok(Self(Box::pin(sleep_until(Instant::now().into()))))
        }

        /// Ready once `at` has passed.
        pub(crate) fn poll_at(
            &mut self,
            at: Instant,
            cx: &mut Context<'_>,
        ) -> Poll<io::Result<()>> {
            if self.0.deadline() != at.into() {
                self.0.as_mut().reset(at.into());
            }
            self.0.as_mut().poll(cx).map(Ok)
        }
    }

    /// Nothing to do.
    pub(crate) fn sharpen() {}
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::future::poll_fn;
    use std::time::{Duration, Instant};

    use super::*;

    #[tokio::test]
    async fn an_alarm_is_never_early_and_can_be_moved() {
        let mut alarm = Alarm::new().unwrap();
        let now = Instant::now();
        let far = now + Duration::from_secs(60);
        assert!(poll_fn(|cx| std::task::Poll::Ready(alarm.poll_at(far, cx))).await.is_pending());
        for step in 1..=3 {
            let at = now + Duration::from_millis(2 * step);
            poll_fn(|cx| alarm.poll_at(at, cx)).await.unwrap();
            assert!(Instant::now() >= at);
        }
    }
}

//! A command that listens at a known address and does not say when.

use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use mcplane_process::{Child, Command};
use tokio::runtime::Runtime;

use crate::control::Control;

/// How often the address is tried.
const EVERY: Duration = Duration::from_millis(20);

/// How long it may take to stop after each rung of the ladder.
const GRACE: Duration = Duration::from_secs(1);

/// Lines of its stderr that are shown when it does not listen.
const STDERR_LINES: usize = 8;

/// A command that listens.
pub(super) struct Service {
    runtime: Runtime,
    child: Child,
}

impl Service {
    /// Starts it and waits until somebody listens at `place`.
    ///
    /// # Errors
    /// A sentence with its last words: it did not start, ended, or does not listen in time; or
    /// somebody listens there already.
    pub(super) fn start(
        command: &Command,
        place: &str,
        limit: Duration,
        control: &Control,
    ) -> Result<Self, String> {
        if listens(place) {
            return Err(format!("cannot start `{command}`: {place} is taken already"));
        }
        // One thread reads what it prints, while the generator has its own.
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime =
            builder.worker_threads(1).enable_all().build().map_err(|error| error.to_string())?;
        let entered = runtime.enter();
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        if let Some(mut stdout) = child.take_stdout() {
            let drain = async move { tokio::io::copy(&mut stdout, &mut tokio::io::sink()).await };
            runtime.spawn(drain);
        }
        let began = Instant::now();
        let why = loop {
            if listens(place) {
                drop(entered);
                return Ok(Self { runtime, child });
            }
            if child.try_wait().is_some() {
                break "it ended";
            }
            if began.elapsed() > limit || control.is_stopped() {
                break "nothing listens there in time";
            }
            std::thread::sleep(EVERY);
        };
        let report = child.report(STDERR_LINES);
        runtime.block_on(child.kill());
        Err(format!("cannot measure `{command}` at {place}: {why}\n{report}"))
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.pid()
    }

    pub(super) fn stop(mut self) {
        drop(self.child.take_stdin());
        self.runtime.block_on(self.child.stop(GRACE));
    }
}

fn listens(place: &str) -> bool {
    #[cfg(unix)]
    if place.starts_with(['/', '.']) {
        return std::os::unix::net::UnixStream::connect(place).is_ok();
    }
    let addresses = place.to_socket_addrs().into_iter().flatten();
    addresses.into_iter().any(|address| TcpStream::connect_timeout(&address, EVERY * 10).is_ok())
}

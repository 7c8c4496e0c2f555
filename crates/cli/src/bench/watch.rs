//! What the user sees of a run, and how they end it.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use mcplane_lab::{Control, live};

/// How often it is drawn.
const EVERY: Duration = Duration::from_millis(100);

/// The exit code of a program that the user interrupted: 128 + SIGINT.
pub(crate) const INTERRUPTED: u8 = 130;

/// The first Ctrl-C ends the run, which then reports what it has; the second ends the program.
pub(crate) fn stop_on_interrupt(control: &Arc<Control>) -> anyhow::Result<()> {
    let control = Arc::clone(control);
    let wait = move || -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            tokio::signal::ctrl_c().await?;
            control.stop();
            tokio::signal::ctrl_c().await?;
            std::process::exit(i32::from(INTERRUPTED))
        })
    };
    let thread = thread::Builder::new().name("mcplane-signals".to_owned());
    thread.spawn(wait).context("cannot start a thread that waits for Ctrl-C")?;
    Ok(())
}

/// What is being done, on stderr, if that is a terminal.
pub(crate) struct Watcher {
    done: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    pub(crate) fn start(control: &Arc<Control>) -> Self {
        let done = Arc::new(AtomicBool::new(false));
        if !std::io::stderr().is_terminal() {
            return Self { done, thread: None };
        }
        control.watch();
        let (finished, control) = (Arc::clone(&done), Arc::clone(control));
        let draw = move || {
            let bar = ProgressBar::new(1000);
            // The template is ours; should it be wrong, the default bar is drawn.
            if let Ok(style) = ProgressStyle::with_template("{prefix} [{bar:30}] {msg}") {
                bar.set_style(style.progress_chars("━╸ "));
            }
            while !finished.load(Ordering::Relaxed) {
                bar.set_prefix(control.title());
                bar.set_position(control.permille());
                bar.set_message(live::lines(&control).join("\n"));
                thread::park_timeout(EVERY);
            }
            bar.finish_and_clear();
        };
        let thread = thread::Builder::new().name("mcplane-progress".to_owned());
        Self { done, thread: thread.spawn(draw).ok() }
    }

    /// Shows nothing.
    pub(crate) fn none() -> Self {
        Self { done: Arc::default(), thread: None }
    }

    /// Removes what was drawn.
    pub(crate) fn finish(self) {
        self.done.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread {
            thread.thread().unpark();
            // It has no state that a panic could have broken.
            let _ = thread.join();
        }
    }
}

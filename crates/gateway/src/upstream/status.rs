//! What an upstream is at the moment, and why: one watch for each of its pools.
//!
//! Workers and their pool write it; whoever shows it reads it here, and whoever waits for it waits
//! here.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::cause::Cause;
use super::state::State;
use crate::clock;

/// What an upstream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// A connection is being opened, since then.
    Starting {
        since: Instant,
    },
    /// It is connected to, and its handshake is not done: it may wait for a person's approval.
    Handshaking {
        since: Instant,
    },
    Ready,
    /// Its workers have let calls time out.
    Degraded,
    /// They did so several times in a row, and get no calls before they have answered a probe.
    Quarantined,
    /// No worker of it runs. One is started again at this time, if that is known.
    Down {
        until: Option<Instant>,
    },
    /// It takes no more calls.
    Closing {
        why: &'static str,
    },
}

/// What is known of one pool.
#[derive(Debug, Default)]
pub(crate) struct Status {
    workers: BTreeMap<usize, Tracked>,
    cause: Option<Arc<Cause>>,
    is_listed: bool,
    closing: Option<&'static str>,
}

/// One worker.
#[derive(Clone, Copy, Debug)]
struct Tracked {
    state: State,
    since: Instant,
    /// When it is started again.
    until: Option<Instant>,
}

impl Status {
    pub(crate) fn phase(&self) -> Phase {
        let any = |state| self.workers.values().any(|worker| worker.state == state);
        let first = |state| {
            let such = self.workers.values().filter(|worker| worker.state == state);
            such.map(|worker| worker.since).min()
        };
        if let Some(why) = self.closing {
            Phase::Closing { why }
        } else if any(State::Healthy) {
            Phase::Ready
        } else if any(State::Degraded) {
            Phase::Degraded
        } else if any(State::Quarantined) {
            Phase::Quarantined
        } else if let Some(since) = first(State::Handshaking) {
            Phase::Handshaking { since }
        } else if let Some(since) = first(State::Starting) {
            Phase::Starting { since }
        } else {
            Phase::Down { until: self.workers.values().filter_map(|worker| worker.until).min() }
        }
    }

    /// What went wrong last, if it has not gone well since.
    pub(crate) const fn cause(&self) -> Option<&Arc<Cause>> {
        self.cause.as_ref()
    }

    /// Since when a worker has been what it is.
    pub(super) fn since(&self, worker: usize) -> Option<Instant> {
        Some(self.workers.get(&worker)?.since)
    }

    /// Whether its lists were read in this run.
    pub(crate) const fn is_listed(&self) -> bool {
        self.is_listed
    }

    /// When its handshake has taken so long that somebody has to approve the upstream, most likely.
    pub(crate) fn approval_awaited_at(&self, after: Duration) -> Option<Instant> {
        match self.phase() {
            Phase::Handshaking { since } => Some(since + after),
            _ => None,
        }
    }

    /// Whether no worker goes before the one with this number.
    pub(super) fn is_first(&self, number: usize) -> bool {
        self.workers.range(..number).all(|(_, worker)| worker.state == State::Leaving)
    }
}

/// The watch. Cloning is cheap; every clone is the same one.
#[derive(Clone, Debug, Default)]
pub(crate) struct StatusWatch(Arc<watch::Sender<Status>>);

impl StatusWatch {
    /// What is known at the moment. It must not be held for longer than it takes to look at it.
    pub(crate) fn now(&self) -> watch::Ref<'_, Status> {
        self.0.borrow()
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Status> {
        self.0.subscribe()
    }

    pub(crate) fn cause(&self) -> Option<Arc<Cause>> {
        self.now().cause.clone()
    }

    /// Waits until this holds. Cancel safe.
    pub(super) async fn until(&self, holds: impl FnMut(&Status) -> bool) {
        // The sender lives as long as `self`.
        let _ = self.subscribe().wait_for(holds).await;
    }

    /// There is one more worker, which is about to be started.
    pub(super) fn add(&self, worker: usize) {
        let tracked = Tracked { state: State::Starting, since: clock::now(), until: None };
        self.0.send_modify(|status| {
            status.workers.insert(worker, tracked);
        });
    }

    /// What a worker is from now on, if it is anything else and not gone for good. One change is
    /// decided on at a time.
    pub(super) fn track(&self, worker: usize, next: impl FnOnce() -> Option<State>) {
        self.0.send_if_modified(|status| {
            let Some(worker) = status.workers.get_mut(&worker) else { return false };
            let Some(state) = next() else { return false };
            *worker = Tracked { state, since: clock::now(), until: None };
            true
        });
    }

    /// A worker that is down is started again at this time.
    pub(super) fn rests(&self, worker: usize, until: Option<Instant>) {
        self.0.send_modify(|status| {
            if let Some(worker) = status.workers.get_mut(&worker) {
                worker.until = until;
            }
        });
    }

    /// A worker is gone for good.
    pub(super) fn forget(&self, worker: usize) {
        self.0.send_if_modified(|status| status.workers.remove(&worker).is_some());
    }

    /// A worker is ready: whatever went wrong is over.
    pub(super) fn ready(&self) {
        self.0.send_modify(|status| status.cause = None);
    }

    /// Something went wrong.
    pub(super) fn failed(&self, cause: Arc<Cause>) {
        self.0.send_modify(|status| status.cause = Some(cause));
    }

    /// What went wrong is over, if it is this.
    pub(super) fn recovered(&self, is_it: impl FnOnce(&Cause) -> bool) {
        self.0.send_if_modified(|status| status.cause.take_if(|cause| is_it(cause)).is_some());
    }

    /// Its lists were read.
    pub(super) fn listed(&self) {
        self.0.send_modify(|status| status.is_listed = true);
    }

    /// It takes no more calls.
    pub(super) fn closing(&self, why: &'static str) {
        self.0.send_modify(|status| status.closing = Some(why));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn track(watch: &StatusWatch, worker: usize, state: State) {
        watch.track(worker, || Some(state));
    }

    #[tokio::test(start_paused = true)]
    async fn an_upstream_is_what_its_best_worker_is() {
        let watch = StatusWatch::default();
        assert_eq!(watch.now().phase(), Phase::Down { until: None });
        let began = clock::now();
        watch.add(0);
        assert_eq!(watch.now().phase(), Phase::Starting { since: began });
        tokio::time::advance(Duration::from_secs(1)).await;
        watch.add(1);
        track(&watch, 1, State::Handshaking);
        track(&watch, 0, State::Handshaking);
        let since = clock::now();
        assert_eq!(watch.now().phase(), Phase::Handshaking { since });
        assert_eq!(watch.now().approval_awaited_at(PAUSE), Some(since + PAUSE));
        for (state, phase) in [
            (State::Quarantined, Phase::Quarantined),
            (State::Degraded, Phase::Degraded),
            (State::Healthy, Phase::Ready),
        ] {
            track(&watch, 1, state);
            assert_eq!(watch.now().phase(), phase);
        }
        assert_eq!(watch.now().approval_awaited_at(PAUSE), None);
        watch.closing("it is not needed any more");
        assert_eq!(watch.now().phase(), Phase::Closing { why: "it is not needed any more" });
    }

    const PAUSE: Duration = Duration::from_secs(3);

    #[tokio::test(start_paused = true)]
    async fn what_went_wrong_is_known_until_it_goes_well() {
        let watch = StatusWatch::default();
        watch.add(0);
        watch.failed(Arc::new(Cause::ListsFailed(Vec::new())));
        assert!(matches!(watch.now().phase(), Phase::Starting { .. }));
        watch.recovered(|cause| !matches!(cause, Cause::ListsFailed(_)));
        assert!(watch.cause().is_some());
        watch.recovered(|cause| matches!(cause, Cause::ListsFailed(_)));
        assert!(watch.cause().is_none());
        watch.failed(Arc::new(Cause::ListsFailed(Vec::new())));
        let until = clock::now() + PAUSE;
        track(&watch, 0, State::Down);
        watch.rests(0, Some(until));
        assert_eq!(watch.now().phase(), Phase::Down { until: Some(until) });
        watch.ready();
        assert!(watch.cause().is_none());
    }

    /// Somebody may have chosen it before it was gone, and find out only then.
    #[test]
    fn who_is_gone_for_good_does_not_come_back() {
        let watch = StatusWatch::default();
        watch.add(0);
        watch.forget(0);
        track(&watch, 0, State::Down);
        assert_eq!(watch.now().since(0), None);
    }

    /// It waits without a look at the time, and for nothing that has come already.
    #[tokio::test(start_paused = true)]
    async fn whoever_waits_is_told() {
        let watch = StatusWatch::default();
        watch.add(0);
        watch.add(1);
        let began = clock::now();
        let waiting = {
            let watch = watch.clone();
            tokio::spawn(async move { watch.until(|status| status.is_first(1)).await })
        };
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert!(!waiting.is_finished());
        watch.forget(0);
        waiting.await.unwrap();
        assert_eq!(clock::now().duration_since(began), Duration::from_secs(3600));
        watch.until(|status| status.is_first(1)).await;
    }
}

//! Futures that one task polls, each only when it has something to do.

use std::collections::HashMap;
use std::future::Future;
use std::mem::take;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Wake, Waker};

use mcplane_proto::id::Id;

/// A future of the set.
pub(super) type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What a future works for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To find out the server's era, with this request.
    Probe(Id),
    /// A request of 2026-07-28: it is cancelled by giving it up.
    Modern(Id),
    /// A request of the legacy revisions: it is cancelled by telling the server.
    Legacy(Id),
    /// A message that is not answered.
    Notice,
    /// What goes on for as long as the connection.
    Stream,
}

impl Purpose {
    fn id(&self) -> Option<&Id> {
        match self {
            Self::Probe(id) | Self::Modern(id) | Self::Legacy(id) => Some(id),
            Self::Notice | Self::Stream => None,
        }
    }
}

#[derive(Default)]
pub(super) struct Tasks {
    tasks: HashMap<u64, Task>,
    last: u64,
    woken: Arc<Woken>,
}

struct Task {
    purpose: Purpose,
    work: Work,
    wakeup: Arc<Wakeup>,
}

/// Which task has something to do, and whom to wake.
#[derive(Default)]
struct Woken(Mutex<(Vec<u64>, Option<Waker>)>);

struct Wakeup {
    key: u64,
    queued: AtomicBool,
    woken: Arc<Woken>,
}

impl Woken {
    fn lock(&self) -> MutexGuard<'_, (Vec<u64>, Option<Waker>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Wakeup {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.queued.swap(true, Ordering::AcqRel) {
            return;
        }
        let waker = {
            let mut woken = self.woken.lock();
            woken.0.push(self.key);
            woken.1.clone()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Tasks {
    pub(super) fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Adds a future, which the next [`Tasks::turn`] polls.
    pub(super) fn add(&mut self, purpose: Purpose, work: Work) {
        self.last += 1;
        let (key, woken) = (self.last, Arc::clone(&self.woken));
        let wakeup = Arc::new(Wakeup { key, queued: AtomicBool::new(true), woken });
        self.woken.lock().0.push(key);
        self.tasks.insert(key, Task { purpose, work, wakeup });
    }

    /// Gives up the futures that `which` picks; their purposes.
    pub(super) fn remove(&mut self, which: impl Fn(&Purpose) -> bool) -> Vec<Purpose> {
        let removed = self.tasks.extract_if(|_, task| which(&task.purpose));
        removed.map(|(_, task)| task.purpose).collect()
    }

    /// What works for the request of this id.
    pub(super) fn purpose(&self, id: &Id) -> Option<&Purpose> {
        let mut purposes = self.tasks.values().map(|task| &task.purpose);
        purposes.find(|purpose| purpose.id() == Some(id))
    }

    /// From now on `waker` is told when there is something to do.
    pub(super) fn tell(&self, waker: &Waker) {
        let mut woken = self.woken.lock();
        if !woken.1.as_ref().is_some_and(|known| known.will_wake(waker)) {
            woken.1 = Some(waker.clone());
        }
    }

    pub(super) fn wake(&self) {
        let waker = self.woken.lock().1.clone();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Polls each future that has something to do, once, for as long as `go_on` says so.
    pub(super) fn turn(&mut self, mut go_on: impl FnMut() -> bool) {
        let mut keys = take(&mut self.woken.lock().0).into_iter();
        for key in keys.by_ref() {
            let Some(task) = self.tasks.get_mut(&key) else { continue };
            task.wakeup.queued.store(false, Ordering::Release);
            let waker = Waker::from(Arc::clone(&task.wakeup));
            if task.work.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
                self.tasks.remove(&key);
            }
            if !go_on() {
                break;
            }
        }
        let left = keys.as_slice();
        if !left.is_empty() {
            self.woken.lock().0.extend_from_slice(left);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Poll;

    use super::*;

    struct Count(Mutex<u32>);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            *self.0.lock().unwrap() += 1;
        }
    }

    #[test]
    fn only_the_woken_are_polled_and_the_finished_leave() {
        let polls = Arc::new(Mutex::new(Vec::new()));
        let wakers = Arc::new(Mutex::new(HashMap::new()));
        let mut tasks = Tasks::default();
        for name in 0..3 {
            let (polls, wakers) = (Arc::clone(&polls), Arc::clone(&wakers));
            let mut left = 2;
            let work = poll_fn(move |cx| {
                polls.lock().unwrap().push(name);
                wakers.lock().unwrap().insert(name, cx.waker().clone());
                left -= 1;
                if left == 0 { Poll::Ready(()) } else { Poll::Pending }
            });
            tasks.add(Purpose::Modern(Id::from(name)), Box::pin(work));
        }
        let count = Arc::new(Count(Mutex::new(0)));
        tasks.tell(&Waker::from(Arc::clone(&count)));
        tasks.turn(|| true);
        tasks.turn(|| true);
        assert_eq!(*polls.lock().unwrap(), [0, 1, 2]);
        let waker = wakers.lock().unwrap()[&1].clone();
        waker.wake_by_ref();
        waker.wake();
        assert_eq!(*count.0.lock().unwrap(), 1, "twice woken, once told");
        tasks.turn(|| true);
        assert_eq!((polls.lock().unwrap().last(), tasks.len()), (Some(&1), 2));
        assert_eq!(tasks.remove(|p| p.id() == Some(&Id::from(2))).len(), 1);
        assert!(tasks.purpose(&Id::from(2)).is_none());
        assert!(tasks.purpose(&Id::from(0)).is_some());
    }

    #[test]
    fn a_turn_that_stops_early_forgets_nobody() {
        let polls = Arc::new(Mutex::new(0));
        let mut tasks = Tasks::default();
        for _ in 0..5 {
            let polls = Arc::clone(&polls);
            tasks.add(Purpose::Notice, Box::pin(async move { *polls.lock().unwrap() += 1 }));
        }
        tasks.turn(|| false);
        assert_eq!(*polls.lock().unwrap(), 1);
        tasks.turn(|| true);
        assert_eq!((*polls.lock().unwrap(), tasks.len()), (5, 0));
    }
}

//! Places at workers, and calls that wait for one: never more at a worker than it may have, nobody
//! waits while a place is free, and nothing is lost or handed on twice.

use std::cell::Cell;
use std::sync::Arc;

use loom::thread;

use super::in_every_order;
use places::{Places, take_of_least};
use queue::{Queue, Refused};

use crate::sync::Ordering;

#[allow(dead_code, reason = "a file of another crate, of which a part is run")]
#[path = "../../../crates/gateway/src/upstream/places.rs"]
mod places;
#[allow(dead_code, reason = "a file of another crate, of which a part is run")]
#[path = "../../../crates/gateway/src/upstream/queue.rs"]
mod queue;

/// Who calls, and which call it is.
type Call = (u8, u8);

/// A lane as `Pool` uses it: the workers, and what waits for them.
struct Lane {
    workers: Vec<Worker>,
    queue: Queue<u8, Call>,
    /// What the workers were given. No order of threads depends on it, and nothing is seen by it.
    given: std::sync::Mutex<Vec<Call>>,
}

#[derive(Default)]
struct Worker {
    in_flight: Places,
    /// How many have a place, as they themselves know.
    calls: std::sync::atomic::AtomicUsize,
}

/// Calls at a worker at the same time.
const CALLS_MAX: usize = 1;

impl Worker {
    fn free(&self) {
        self.calls.fetch_sub(1, Ordering::Relaxed);
        self.in_flight.free(1);
    }
}

impl Lane {
    fn new(workers: usize) -> Arc<Self> {
        Arc::new(Self {
            workers: (0..workers).map(|_| Worker::default()).collect(),
            queue: Queue::default(),
            given: std::sync::Mutex::default(),
        })
    }

    /// As `Pool::pick`.
    fn place(&self) -> Option<&Worker> {
        let place = take_of_least(self.workers.iter(), |worker| &worker.in_flight, CALLS_MAX)?;
        assert!(place.calls.fetch_add(1, Ordering::Relaxed) < CALLS_MAX, "more than it may have");
        Some(place)
    }

    fn give(&self, call: Call) {
        self.given.lock().unwrap().push(call);
    }

    /// As `Pool::admit_here`.
    fn admit(&self, call: Call, queue_max: usize) -> Result<(), Refused<Call>> {
        if self.place().is_some() {
            self.give(call);
            return Ok(());
        }
        self.queue.push(&call.0, call, queue_max, queue_max)?;
        self.advance();
        Ok(())
    }

    fn advance(&self) {
        let go = |worker: &Worker, call| match call {
            Some(call) => self.give(call),
            None => worker.free(),
        };
        self.queue.advance(|_| true, |_| self.place(), go);
    }

    /// A call of this worker has ended.
    fn end(&self, worker: usize) {
        self.workers[worker].free();
        // As when a `Place` is dropped.
        if self.queue.is_waited_in() {
            self.advance();
        }
    }

    fn loads(&self) -> Vec<usize> {
        self.workers.iter().map(|worker| worker.in_flight.load(Ordering::Relaxed)).collect()
    }

    fn given(&self) -> usize {
        self.given.lock().unwrap().len()
    }

    fn waiting(&self) -> usize {
        self.queue.load(Ordering::Relaxed)
    }
}

/// The last place becomes free while a call finds none: it does not stay in the queue.
pub fn nobody_waits_while_a_place_is_free() {
    in_every_order(|| {
        let lane = Lane::new(1);
        assert!(lane.admit((0, 0), 8).is_ok());
        let ends = thread::spawn({
            let lane = Arc::clone(&lane);
            move || lane.end(0)
        });
        assert!(lane.admit((1, 0), 8).is_ok());
        ends.join().unwrap();
        assert_eq!((lane.given(), lane.waiting()), (2, 0));
        assert_eq!(lane.loads(), [1]);
    });
}

/// Two call while one ends: one of them has its place and the other waits, whoever is first.
pub fn never_more_than_a_worker_may_have() {
    in_every_order(|| {
        let lane = Lane::new(1);
        assert!(lane.admit((0, 0), 8).is_ok());
        let threads = [1, 2].map(|caller| {
            let lane = Arc::clone(&lane);
            thread::spawn(move || assert!(lane.admit((caller, 0), 8).is_ok()))
        });
        lane.end(0);
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!((lane.given(), lane.waiting()), (2, 1));
        lane.end(0);
        assert_eq!((lane.given(), lane.waiting()), (3, 0));
        lane.end(0);
        assert_eq!(lane.loads(), [0]);
    });
}

/// Two call where there are two workers, and no queue: each has one of them.
pub fn who_is_second_finds_the_other_worker() {
    in_every_order(|| {
        let lane = Lane::new(2);
        let other = thread::spawn({
            let lane = Arc::clone(&lane);
            move || lane.admit((1, 0), 0).is_ok()
        });
        assert!(lane.admit((0, 0), 0).is_ok());
        assert!(other.join().unwrap());
        assert_eq!(lane.loads(), [1, 1]);
    });
}

/// Two calls end while two wait: both go on.
pub fn who_waits_goes_on_whoever_ends() {
    in_every_order(|| {
        let lane = Lane::new(2);
        for call in 0..4 {
            assert!(lane.admit((call, 0), 8).is_ok());
        }
        let ends = thread::spawn({
            let lane = Arc::clone(&lane);
            move || lane.end(1)
        });
        lane.end(0);
        ends.join().unwrap();
        assert_eq!((lane.given(), lane.waiting()), (4, 0));
        assert_eq!(lane.loads(), [1, 1]);
    });
}

/// A call that waits is given up while it could go on: it does the one or the other, and its place
/// is free if it did not go on.
pub fn what_leaves_the_queue_does_so_once() {
    in_every_order(|| {
        let lane = Lane::new(1);
        for call in 0..2 {
            assert!(lane.admit((0, call), 8).is_ok());
        }
        let gives_up = thread::spawn({
            let lane = Arc::clone(&lane);
            move || lane.queue.extract(|call| *call == (0, 1)).len()
        });
        let comes = thread::spawn({
            let lane = Arc::clone(&lane);
            move || assert!(lane.admit((1, 0), 8).is_ok())
        });
        lane.end(0);
        comes.join().unwrap();
        let given_up = gives_up.join().unwrap();
        assert_eq!(lane.given() + given_up + lane.waiting(), 3);
        assert_eq!(lane.waiting(), 1 - given_up, "the place is free for one");
        assert_eq!(lane.loads(), [1]);
        lane.end(0);
        assert_eq!((lane.given(), lane.loads()), (3 - given_up, vec![1 - given_up]));
    });
}

/// A place in a full queue becomes free while others come: no more than there may be, and one that is
/// refused takes no place.
pub fn who_is_refused_takes_no_place() {
    in_every_order(|| {
        let queue: Arc<Queue<u8, Call>> = Arc::default();
        assert!(queue.push(&0, (0, 0), 1, 1).is_ok());
        let comes = thread::spawn({
            let queue = Arc::clone(&queue);
            move || queue.push(&1, (1, 0), 1, 1).is_ok()
        });
        assert_eq!(queue.extract(|call| call.0 == 0).len(), 1);
        let own = queue.push(&2, (2, 0), 1, 1).is_ok();
        let other = comes.join().unwrap();
        assert!(own != other, "one of them has the place");
        assert_eq!(queue.load(Ordering::Relaxed), 1);
        assert_eq!(queue.extract(|_| true).len(), 1);
    });
}

/// A lane closes while a call comes: it is refused, or taken out with those that wait.
pub fn nothing_stays_in_a_closed_queue() {
    in_every_order(|| {
        let queue: Arc<Queue<u8, Call>> = Arc::default();
        let comes = thread::spawn({
            let queue = Arc::clone(&queue);
            move || matches!(queue.push(&1, (1, 0), 8, 8), Err(Refused::Closed((1, 0))))
        });
        let taken_out = Cell::new(0);
        queue.close(|_| taken_out.set(taken_out.get() + 1));
        let is_refused = comes.join().unwrap();
        assert_eq!(taken_out.get() + usize::from(is_refused), 1);
        assert_eq!(queue.load(Ordering::Relaxed), 0);
        assert_eq!(queue.extract(|_| true).len(), 0);
    });
}

//! Which of many connections have something to do: a wake-up costs the same however many wait.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Wake, Waker};

/// The numbers of those that want to be polled.
#[derive(Default)]
pub(super) struct Ready(Mutex<List>);

#[derive(Default)]
struct List {
    numbers: VecDeque<usize>,
    /// Which numbers are in the list.
    listed: Vec<bool>,
    parent: Option<Waker>,
}

impl List {
    /// Whether the number was not there yet.
    fn add(&mut self, number: usize) -> bool {
        match self.listed.get_mut(number) {
            Some(listed) if !*listed => *listed = true,
            _ => return false,
        }
        self.numbers.push_back(number);
        true
    }
}

/// Lists its number when it is woken.
struct Bell {
    number: usize,
    ready: Arc<Ready>,
}

impl Ready {
    /// A waker that lists the next number: 0, 1, 2 …
    pub(super) fn waker(self: &Arc<Self>) -> Waker {
        let mut list = self.list();
        let number = list.listed.len();
        list.listed.push(false);
        Waker::from(Arc::new(Bell { number, ready: Arc::clone(self) }))
    }

    /// Lists a number without waking anybody: for one who goes on taking.
    pub(super) fn list_again(&self, number: usize) {
        self.list().add(number);
    }

    /// Takes the next one.
    pub(super) fn take(&self) -> Option<usize> {
        let mut list = self.list();
        let number = list.numbers.pop_front()?;
        if let Some(listed) = list.listed.get_mut(number) {
            *listed = false;
        }
        Some(number)
    }

    /// Whom to wake when one is listed. Returns how many are already.
    pub(super) fn register(&self, cx: &Context<'_>) -> usize {
        let mut list = self.list();
        if !list.parent.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            list.parent = Some(cx.waker().clone());
        }
        list.numbers.len()
    }

    fn list(&self) -> MutexGuard<'_, List> {
        // A list of numbers has no state that a panic could have broken.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut list = self.ready.list();
        let parent = if list.add(self.number) { list.parent.clone() } else { None };
        drop(list);
        if let Some(parent) = parent {
            parent.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_listed_once_until_it_is_taken() {
        let ready = Arc::new(Ready::default());
        let wakers = [ready.waker(), ready.waker()];
        for number in [1, 0, 1] {
            wakers[number].wake_by_ref();
        }
        assert_eq!([ready.take(), ready.take(), ready.take()], [Some(1), Some(0), None]);
        ready.list_again(1);
        wakers[1].wake_by_ref();
        assert_eq!(ready.register(&Context::from_waker(Waker::noop())), 1);
        assert_eq!(ready.take(), Some(1));
    }
}

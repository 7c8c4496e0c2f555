//! Which client each worker serves, where workers have one call at a time.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mcplane::server::relay::Caller;

/// Of which client each worker has a call, or had its last, by the workers' numbers.
#[derive(Default)]
pub(super) struct Clients(Mutex<HashMap<usize, Caller>>);

impl Clients {
    /// The worker of this choice, with its number, if the client has fewer than `share` of those that
    /// are busy.
    pub(super) fn pick<W>(
        &self,
        client: &Caller,
        (is_busy, share): (impl Fn(usize) -> bool, usize),
        choice: impl FnOnce() -> Option<(usize, W)>,
    ) -> Option<W> {
        let mut of = self.lock();
        if count(&of, client, is_busy) >= share {
            return None;
        }
        let (number, worker) = choice()?;
        of.insert(number, client.clone());
        Some(worker)
    }

    /// How many of those that are busy a client has.
    pub(super) fn count(&self, client: &Caller, is_busy: impl Fn(usize) -> bool) -> usize {
        count(&self.lock(), client, is_busy)
    }

    /// This worker is gone.
    pub(super) fn forget(&self, number: usize) {
        self.lock().remove(&number);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<usize, Caller>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn count(of: &HashMap<usize, Caller>, client: &Caller, is_busy: impl Fn(usize) -> bool) -> usize {
    of.iter().filter(|(number, one)| is_one_client(one, client) && is_busy(**number)).count()
}

/// Whether both are of one principal, or else of one connection: where there is neither, one client is
/// like another.
pub(super) fn is_one_client(a: &Caller, b: &Caller) -> bool {
    a.principal == b.principal && (a.principal.is_some() || a.connection == b.connection)
}

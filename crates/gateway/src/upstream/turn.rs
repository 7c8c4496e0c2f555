//! Tools with a limit of their own: their calls take turns.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mcplane::proto::error::{Code, ErrorObject};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::call::Call;
use super::pool::Pool;
use super::supervise::QUEUE_TIME_MAX;
use super::worker::unavailable;
use crate::clock;

/// How often a call that waits for its turn looks whether anybody still wants it.
const LOOK: Duration = Duration::from_millis(250);

impl Pool {
    /// Sends a call on when it is its turn.
    pub(super) fn take_turn(self: &Arc<Self>, call: Arc<Call>, turns: Arc<Semaphore>) {
        if let Ok(turn) = Arc::clone(&turns).try_acquire_owned() {
            call.seat().turn = Some(turn);
            return self.admit(call);
        }
        let max = self.settings.queue as usize;
        if self.in_turn.fetch_add(1, Ordering::AcqRel) >= max {
            self.in_turn.fetch_sub(1, Ordering::AcqRel);
            self.shared.refused.fetch_add(1, Ordering::Relaxed);
            let why = format!("{max} calls wait for their turn at a tool with a limit of its own");
            return call.fail(&ErrorObject::new(Code::OVERLOADED, why));
        }
        let pool = Arc::clone(self);
        tokio::spawn(async move {
            let is_its_turn = pool.wait_for_turn(&call, turns).await;
            pool.in_turn.fetch_sub(1, Ordering::AcqRel);
            pool.shared.drain.note();
            if is_its_turn {
                pool.admit(call);
            }
        });
    }

    /// Permits are handed out in the order in which they were asked for. `false` if the call has
    /// ended while it waited.
    async fn wait_for_turn(&self, call: &Call, turns: Arc<Semaphore>) -> bool {
        let mut turn = pin!(turns.acquire_owned());
        let since = clock::now();
        while call.is_wanted() {
            if let Ok(Ok(turn)) = timeout(LOOK, turn.as_mut()).await {
                call.seat().turn = Some(turn);
                return true;
            }
            if clock::now().duration_since(since) >= QUEUE_TIME_MAX {
                call.fail(&unavailable("the call waited too long for its turn at its tool"));
            }
        }
        false
    }
}

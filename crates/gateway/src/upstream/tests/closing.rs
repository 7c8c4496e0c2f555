//! Workers that come, or change their lane, while it ends.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::fake::{Fake, server, started};
use super::{LIMIT, one};
use crate::admin::WorkerState;
use crate::config::{Mode, Server, Speaks};
use crate::gateway::Gateway;
use crate::upstream::keyed::NoLane;
use crate::upstream::keys::Key;
use crate::upstream::model::Pool;
use crate::upstream::state::State;

/// A gateway that has a spare worker, and the pool of that.
async fn with_spare() -> (Gateway, Arc<Pool>) {
    let server = Server { mode: Mode::PerSession, ..server(Speaks::Legacy) };
    let gateway = started(&Fake::new(&["echo"]), server);
    one(&gateway, |status| status.workers.iter().any(|worker| worker.state == WorkerState::Spare))
        .await;
    let pool = Arc::clone(&gateway.upstreams()[0].pool);
    (gateway, pool)
}

fn numbers(pool: &Pool) -> Vec<usize> {
    pool.workers().iter().map(|worker| worker.number).collect()
}

/// Somebody may have looked at the lanes already, and look at the spare workers next.
#[tokio::test]
async fn a_spare_worker_stays_where_it_is_once_its_pool_closes() {
    let (gateway, pool) = with_spare().await;
    let before = numbers(&pool);
    pool.take_no_more("it is over");
    assert!(matches!(pool.lane_of(Key::Session(7), || None), Err(NoLane::Closing)));
    let spares: Vec<_> = pool.common.workers.load().iter().map(|worker| worker.number).collect();
    assert_eq!(spares, before);
    timeout(LIMIT, gateway.close()).await.unwrap();
}

#[tokio::test]
async fn a_pool_that_has_closed_gets_no_worker() {
    let (gateway, pool) = with_spare().await;
    timeout(LIMIT, gateway.close()).await.unwrap();
    pool.add_worker(&pool.common, None);
    assert!(numbers(&pool).is_empty());
}

/// A worker may be replaced at the moment when its session ends: nobody would tell the new one to end.
#[tokio::test]
async fn a_session_that_has_ended_gets_no_worker() {
    let (gateway, pool) = with_spare().await;
    let (lane, _) = pool.lane_of(Key::Session(7), || None).ok().unwrap();
    pool.stop_idle(Duration::ZERO);
    pool.add_worker(&lane, None);
    assert!(lane.workers.load().iter().all(|worker| worker.state() == State::Leaving));
    timeout(LIMIT, gateway.close()).await.unwrap();
}

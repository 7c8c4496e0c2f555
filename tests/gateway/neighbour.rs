//! Well-behaved clients that must not notice what happens beside them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use serde_json::json;

use crate::{
    client::{Client, text},
    gateway::Gateway,
};

/// The longest that a call may take here: far more than on a machine that does nothing else.
const PATIENCE: Duration = Duration::from_secs(3);

/// One client of each era, both calling all the time.
pub struct Neighbours {
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<u32>>,
}

impl Neighbours {
    /// Clients of `server`, which has the tool `echo`.
    pub fn of(gateway: &Gateway, server: &str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let clients = [gateway.modern(server), gateway.legacy(server)];
        let clients = clients.into_iter().enumerate().map(|(number, client)| {
            let stop = Arc::clone(&stop);
            thread::spawn(move || call(client, number, &stop))
        });
        Self { clients: clients.collect(), stop }
    }

    /// Fails the test unless each call was answered rightly and soon, up to now.
    #[track_caller]
    pub fn are_well(self) {
        self.stop.store(true, Ordering::Relaxed);
        for client in self.clients {
            let calls = client.join().expect("a well-behaved client was disturbed");
            assert!(calls > 0, "a well-behaved client got nothing done");
        }
    }
}

fn call(mut client: Client, number: usize, stop: &AtomicBool) -> u32 {
    let mut calls = 0;
    while !stop.load(Ordering::Relaxed) {
        let message = format!("{number}: {calls}");
        let began = Instant::now();
        let response = client.call("echo", json!({"message": message}));
        assert_eq!(text(&response), message);
        let took = began.elapsed();
        assert!(took < PATIENCE, "call {calls} of a well-behaved client took {took:?}");
        calls += 1;
        thread::sleep(Duration::from_millis(5));
    }
    calls
}

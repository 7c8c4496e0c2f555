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
    clients: Vec<JoinHandle<()>>,
}

impl Neighbours {
    /// Clients of `server`, which has the tool `echo`.
    pub fn of(gateway: &Gateway, server: &str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let clients = [gateway.modern(server), gateway.legacy(server)];
        let clients = clients.into_iter().enumerate().map(|(number, mut client)| {
            // From here on there are workers of its era.
            client.call("echo", json!({"message": "ready?"}));
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
            client.join().expect("a well-behaved client was disturbed");
        }
    }
}

/// Calls at least once, however late it comes to it.
fn call(mut client: Client, number: usize, stop: &AtomicBool) {
    for calls in 0_u32.. {
        let message = format!("{number}: {calls}");
        let began = Instant::now();
        let response = client.call("echo", json!({"message": message}));
        assert_eq!(text(&response), message);
        let took = began.elapsed();
        assert!(took < PATIENCE, "call {calls} of a well-behaved client took {took:?}");
        if stop.load(Ordering::Relaxed) {
            break;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

//! Who meets in a [`Pair`](crate::Pair), and how messages travel between them.

use std::time::Duration;

use mcplane_proto::limits::REQUEST_TIMEOUT;
use mcplane_proto::session::listen::Offered;
use mcplane_proto::session::server::Features;
use mcplane_proto::session::{EraChoice, ServerConfig};
use mcplane_proto::types::{Cache, Implementation, ServerCapabilities};
use mcplane_proto::{Method, Revision};

/// How one direction carries messages.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_structs, reason = "plain data that tests build")]
pub struct Conditions {
    /// How long every message takes.
    pub delay: Duration,
    /// How much longer it may take.
    pub jitter: Duration,
    /// Messages of 100 that never arrive.
    pub loss_percent: u32,
    /// Messages of 100 that arrive twice.
    pub copy_percent: u32,
    /// Streams that messages are spread over; each keeps its order, and they overtake each other.
    pub streams: u32,
}

impl Default for Conditions {
    /// A pipe: one millisecond, in order, nothing lost.
    fn default() -> Self {
        let delay = Duration::from_millis(1);
        Self { delay, jitter: Duration::ZERO, loss_percent: 0, copy_percent: 0, streams: 1 }
    }
}

/// Who meets, and how.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "plain data that tests build")]
pub struct Setup {
    /// Decides loss, jitter and streams.
    pub seed: u64,
    /// What the client is willing to speak.
    pub choice: EraChoice,
    /// How long it waits for each answer of the handshake.
    pub timeout: Duration,
    /// What the server speaks.
    pub revisions: Vec<Revision>,
    /// From the client to the server.
    pub up: Conditions,
    /// From the server to the client.
    pub down: Conditions,
    /// The server exits when it is asked this.
    pub dies_on: Option<Method>,
    /// The server never answers this: it gets lost inside.
    pub ignores: Option<Method>,
    /// When the pipe closes, from the start.
    pub closes_after: Option<Duration>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            seed: 0,
            choice: EraChoice::Auto,
            timeout: REQUEST_TIMEOUT,
            revisions: Revision::ALL.to_vec(),
            up: Conditions::default(),
            down: Conditions::default(),
            dies_on: None,
            ignores: None,
            closes_after: None,
        }
    }
}

/// A server that offers everything.
pub(crate) fn server(setup: &Setup) -> ServerConfig {
    ServerConfig {
        info: Implementation::new("server", "1"),
        capabilities: ServerCapabilities::new()
            .with_tools(true)
            .with_prompts(true)
            .with_resources(true, true)
            .with_completions()
            .with_logging(),
        instructions: None,
        revisions: setup.revisions.clone(),
        unsupported: None,
        features: Features {
            tools: true,
            resources: true,
            prompts: true,
            completions: true,
            logging: true,
        },
        offered: Offered {
            tools_list_changed: true,
            prompts_list_changed: true,
            resources_list_changed: true,
            resource_subscriptions: true,
        },
        cache: Cache::default(),
    }
}

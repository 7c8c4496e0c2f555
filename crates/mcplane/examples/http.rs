//! A server of both eras on `http://127.0.0.1:8765/mcp`, until ctrl-c.

use mcplane::transport::http::server::{ConnectionLimits, Endpoint, serve};
use mcplane::transport::listen::{Limits, Listener};
use mcplane::{Context, Server, tool};
use tokio::time::{Duration, sleep};

/// Counts down, and tells how far it is.
#[tool]
async fn count_down(
    context: &Context,
    /// where to begin
    #[arg(default = 3, range(min = 1, max = 60))]
    seconds: u32,
) -> String {
    for done in 0..seconds {
        context.progress(f64::from(done), Some(f64::from(seconds)), None);
        sleep(Duration::from_secs(1)).await;
    }
    "Lift-off!".into()
}

#[tokio::main]
async fn main() -> mcplane::Result<()> {
    let service = Server::new("countdown", "1.0.0").tool(count_down).start()?;
    let listener = Listener::bind(&"127.0.0.1:8765".parse()?, Limits::default()).await?;
    serve(listener, Endpoint::new(service), ConnectionLimits::default(), async {
        // Without a signal to wait for it is better to stop than to run for ever.
        let _ = tokio::signal::ctrl_c().await;
    })
    .await;
    Ok(())
}

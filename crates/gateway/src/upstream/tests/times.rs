//! How long calls may take, and may wait.

use mcplane::proto::version::Revision;
use serde_json::json;
use tokio::time::Instant;

use super::fake::{Fake, server, started};
use super::raw::raw;
use crate::config::{Period, Server, Speaks};

/// A call that nobody answers: after how many seconds it fails, and how.
async fn fails_after(settings: Server, tool: &str, before: usize) -> (u64, String) {
    let fake = Fake::new(&["echo", "slow"]);
    let gateway = started(&fake, settings);
    gateway.ready().await;
    let mut clients = Vec::new();
    for _ in 0..=before {
        let mut client = raw(&gateway);
        client.initialize(json!({})).await;
        clients.push(client);
    }
    let since = Instant::now();
    let call = json!({"name": tool, "arguments": {}});
    for client in &mut clients {
        client.request(1, "tools/call", call.clone()).await;
        tokio::task::yield_now().await;
    }
    let heard = clients.last_mut().unwrap().hear().await;
    let told = heard["error"]["message"].as_str().unwrap().to_owned();
    let took = since.elapsed();
    gateway.close().await;
    (took.as_millis().div_ceil(1_000).try_into().unwrap(), told)
}

#[tokio::test(start_paused = true)]
async fn a_server_and_a_tool_have_times_of_their_own() {
    let mut settings = server(Speaks::Revision(Revision::LATEST_LEGACY));
    settings.call_timeout = Some(Period::of_s(7));
    settings.tools.timeouts.insert("slow".into(), Period::of_s(15));
    let (after, told) = fails_after(settings.clone(), "echo", 0).await;
    assert!((7..9).contains(&after) && told.contains("time"), "{after} s: {told}");
    let (after, told) = fails_after(settings, "slow", 0).await;
    assert!((15..17).contains(&after) && told.contains("time"), "{after} s: {told}");
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_for_a_worker_for_as_long_as_is_said() {
    let mut settings = server(Speaks::Revision(Revision::LATEST_LEGACY));
    settings.calls_per_worker = 1;
    settings.queue_timeout = Period::of_s(12);
    let (after, told) = fails_after(settings, "echo", 1).await;
    assert!((12..15).contains(&after), "{after} s: {told}");
    assert!(told.contains("waited too long for a worker"), "{told}");
}

//! A small call through the gateway, to a server in memory that speaks the same revision.

use std::sync::Arc;

use mcplane::Service;
use mcplane::transport::memory;
use mcplane_gateway::config::{Config, Server, Speaks};
use mcplane_gateway::{Connect, Connected, Connecting, Gateway};
use mcplane_proto::version::Revision;

use crate::{CALL_MODERN, Done, call, run, server};

/// The way to the server.
struct Near(Service);

impl Connect for Near {
    fn connect<'a>(&'a self, _: &'a str, _: &'a Server) -> Connecting<'a> {
        let (near, far) = memory::pair();
        let service = self.0.clone();
        tokio::spawn(async move { service.serve(far).await });
        Box::pin(async { Connected::to(near) })
    }
}

pub(crate) fn calls(times: u64) -> Done {
    run(async {
        let mut config = Config::default();
        // Nothing is kept on the disk.
        config.gateway.state_dir = Some("/dev/null/nowhere".into());
        let revision = Speaks::Revision(Revision::LATEST);
        let echo = Server { command: Some("none".into()), revision, ..Server::default() };
        config.servers.insert("it", echo);
        let gateway = Gateway::start_with(config, Arc::new(Near(server()?)))?;
        gateway.ready().await;
        call(gateway.service(), CALL_MODERN, times).await
    })
}

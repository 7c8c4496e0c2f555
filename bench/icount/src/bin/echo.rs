//! `echo N`: an inline `echo` through the server and back, in memory, N times, one in flight.

use mcplane::transport::{Transport, memory};
use mcplane::{Context, Server, Tool};
use mcplane_icount::{CALL_MODERN, Message, times};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let echo = Tool::inline("echo", |_: &Context, arguments: Message| arguments.message);
        let service = Server::new("icount", "1").tool(echo).start()?;
        let (near, far) = memory::pair();
        tokio::spawn(async move { service.serve(far).await });
        let (mut reader, mut writer) = near.open()?;
        let mut answer = vec![0; 4096];
        for _ in 0..times() {
            writer.write_all(CALL_MODERN).await?;
            writer.write_all(b"\n").await?;
            let len = reader.read(&mut answer).await?;
            assert!(answer.get(..len).is_some_and(|line| line.ends_with(b"}\n")));
        }
        Ok(())
    })
}

//! A complete server: one tool over standard input and output.

use mcplane::{Server, tool};

/// Adds two numbers.
#[tool]
fn add(a: i64, b: i64) -> i64 {
    a + b
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> mcplane::Result<()> {
    Server::new("demo", "1.0.0").tool(add).serve(mcplane::stdio()).await
}

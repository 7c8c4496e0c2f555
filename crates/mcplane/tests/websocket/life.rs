//! The life of a connection: calls in flight, silence, shutdown.

use mcplane::budget::Budget;

use super::*;

#[tokio::test]
async fn a_client_that_leaves_cancels_what_it_has_in_flight() {
    let (service, mut held) = service();
    let server = Running::with(service, limits(), Config::default()).await;
    for polite in [true, false] {
        let mut raw = server.raw().await;
        raw.send(FIN | TEXT, call(1, "hold").as_bytes()).await;
        let dropped = wait(held.recv()).await.unwrap();
        let before = Instant::now();
        if polite {
            raw.leave().await;
        } else {
            drop(raw);
        }
        wait(dropped).await.unwrap_err();
        assert!(before.elapsed() < Duration::from_secs(4), "long before the loop's own limit");
    }
    server.stop().await;
}

#[tokio::test]
async fn silence_is_looked_into_and_then_given_up() {
    let config = Config::default().keep_alive(Duration::from_millis(100));
    let server = Running::with(service().0, limits(), config).await;
    let mut raw = server.raw().await;
    for _ in 0..3 {
        assert_eq!(raw.frame().await, (FIN | PING, vec![]));
        raw.send(FIN | PONG, b"").await;
    }
    assert_eq!(raw.frame().await, (FIN | PING, vec![]));
    assert_eq!(raw.0.read(&mut [0; 8]).await.unwrap(), 0, "no pong, no connection");

    let config = Config::default().keep_alive(Duration::from_millis(50));
    let client = server.client(EraChoice::Auto, &config).await;
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!(echo(&client, "still here").await, "still here");
    server.stop().await;
}

#[tokio::test]
async fn pongs_that_nobody_takes_do_not_pile_up() {
    let server = Running::start().await;
    let mut raw = server.raw().await;
    let pings = frame(FIN | PING, &[7; 125]).repeat(1000);
    let mut sent = 0;
    // Until the server stops reading: its queue and the kernel's buffers are full.
    while let Ok(wrote) =
        timeout(Duration::from_millis(500), raw.0.write(&pings[sent % pings.len()..])).await
    {
        sent += wrote.unwrap();
        assert!(sent < 256 * 1024 * 1024, "it reads for ever");
    }
    server.serves().await;
    // And it goes on as soon as they are taken.
    assert_eq!(raw.frame().await, (FIN | PONG, vec![7; 125]));
    server.stop().await;
}

#[tokio::test]
async fn at_shutdown_what_is_in_flight_is_finished_and_1001_says_why() {
    let server = Running::start().await;
    let mut raw = server.raw().await;
    raw.send(FIN | TEXT, call(1, "slow").as_bytes()).await;
    raw.send(FIN | TEXT, call(2, "echo").as_bytes()).await;
    assert_eq!(raw.message().await["id"], 2, "the server has read both");
    tokio::join!(server.stop(), async {
        assert_eq!(raw.message().await["id"], 1);
        let (opcode, payload) = raw.frame().await;
        assert_eq!((opcode, payload), (FIN | CLOSE, close(1001, b"")));
        raw.send(FIN | CLOSE, &close(1001, b"")).await;
        assert_eq!(raw.0.read(&mut [0; 8]).await.unwrap(), 0);
    });
}

#[tokio::test]
async fn a_pending_call_ends_when_the_server_closes() {
    let (service, mut held) = service();
    let limits = limits().drain(Duration::from_millis(50));
    let server = Running::with(service, limits, Config::default()).await;
    let client = server.client(EraChoice::Auto, &Config::default()).await;
    let call = tokio::spawn(async move { client.call_tool("hold", &json!({})).await });
    wait(held.recv()).await.unwrap();
    wait(server.stop()).await;
    assert!(wait(call).await.unwrap().unwrap_err().is_closed());
}

#[tokio::test]
async fn halves_in_different_tasks_wake_each_other() {
    let server = Running::start().await;
    let (mut reader, mut writer) =
        tokio::io::split(server.connect(&Config::default()).await.unwrap());
    let reading = tokio::spawn(async move {
        let (mut newlines, mut buffer) = (0, vec![0; 4096]);
        while newlines < 200 {
            let count = reader.read(&mut buffer).await.unwrap();
            newlines += buffer[..count].iter().filter(|byte| **byte == b'\n').count();
        }
    });
    for id in 0..200 {
        let arguments = json!({"text": "x".repeat(9999)}).to_string();
        let line = call(id, "echo").replace(EMPTY, &format!("\"arguments\":{arguments}"));
        writer.write_all(format!("{line}\n").as_bytes()).await.unwrap();
        writer.flush().await.unwrap();
    }
    wait(reading).await.unwrap();
    wait(writer.shutdown()).await.unwrap();
    server.stop().await;
}

#[tokio::test]
async fn fragments_for_which_there_is_no_memory_end_the_connection() {
    let budget = Budget::new(256 * 1024);
    let service = Server::new("memory", "1").memory(budget.clone()).start().unwrap();
    let server = Running::with(service, limits(), Config::default()).await;
    let mut raw = server.raw().await;
    raw.send(TEXT, &[b' '; 60_000]).await;
    for _ in 0..4 {
        raw.send(CONTINUATION, &[b' '; 60_000]).await;
    }
    let why = b"there is no memory for this message: try again later";
    assert_eq!(raw.frame().await, (FIN | CLOSE, close(1013, why)));
    drop(raw);
    wait(async {
        while budget.used() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    server.stop().await;
}

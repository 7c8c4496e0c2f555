//! The faults, each really injected: bytes that are wrong, late, too many or cut off, and signals.

use std::io::{BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_linger;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::peer::{PATIENCE, Place, call, echo, read, short, unanswered};
use super::subject::Subject;

/// What a fault showed, beside what became of the neighbours.
#[derive(Debug, Default)]
pub(super) struct Shown {
    /// How long until the subject did something about it that the one at fault could see.
    pub(super) detected: Option<Duration>,
    /// How many requests were refused, of how many.
    pub(super) refused: Option<(u64, u64)>,
    /// What is wrong with the way it was met.
    pub(super) complaint: Option<String>,
}

/// Nothing: what fails under this fails without a fault.
pub(super) fn nothing(_: &Subject) -> Result<Shown, String> {
    Ok(Shown::default())
}

/// What is done to a subject.
pub(super) type Fault = fn(&Subject) -> Result<Shown, String>;

fn failed(what: &str) -> impl Fn(std::io::Error) -> String {
    move |error| format!("{what}: {error}")
}

fn connect(place: &Place) -> Result<TcpStream, String> {
    place.connect().map_err(failed("cannot connect"))
}

/// Twenty connections are reset with a call in flight: RST, not FIN.
pub(super) fn reset(on: &Subject) -> Result<Shown, String> {
    for id in 1..=20 {
        let mut stream = connect(&on.place)?;
        let request = on.place.call(id, "sleep", &json!({"ms": 200}));
        stream.write_all(&request).map_err(failed("cannot write"))?;
        std::thread::sleep(Duration::from_millis(5));
        let linger = set_socket_linger(&stream, Some(Duration::ZERO));
        linger.map_err(|error| format!("cannot make it reset: {error}"))?;
    }
    Ok(Shown::default())
}

/// A request arrives byte by byte.
pub(super) fn partial(on: &Subject) -> Result<Shown, String> {
    let mut stream = connect(&on.place)?;
    let text = "number 1";
    for byte in on.place.call(1, "echo", &json!({"message": text})) {
        stream.write_all(&[byte]).map_err(failed("cannot write"))?;
        std::thread::sleep(Duration::from_millis(1));
    }
    let answer = read(&mut BufReader::new(&stream)).map_err(|error| unanswered(&error));
    let complaint = match answer {
        Ok(answer) if answer.status == 200 && answer.body.contains(text) => None,
        Ok(answer) => Some(format!("status {}: {}", answer.status, short(&answer.body))),
        Err(why) => Some(why),
    };
    Ok(Shown { complaint, ..Shown::default() })
}

/// Twenty requests stop in the middle, and their connections stay open.
pub(super) fn stall(on: &Subject) -> Result<Shown, String> {
    let mut open = Vec::new();
    for _ in 0..20 {
        let mut stream = connect(&on.place)?;
        let head = on.place.head(1_000, "echo");
        stream.write_all(head.as_bytes()).map_err(failed("cannot write"))?;
        stream.write_all(b"{\"jsonrpc\":").map_err(failed("cannot write"))?;
        open.push(stream);
    }
    // Longer than a neighbour may have to wait.
    std::thread::sleep(Duration::from_secs(5));
    Ok(Shown::default())
}

/// Two hundred connections are opened, say nothing and stay.
pub(super) fn leak(on: &Subject) -> Result<Shown, String> {
    let open: Vec<_> = (0..200).map_while(|_| on.place.connect().ok()).collect();
    std::thread::sleep(Duration::from_secs(2));
    Ok(Shown { refused: Some((200 - open.len() as u64, 200)), ..Shown::default() })
}

/// Five hundred connections are opened and closed as fast as it goes.
pub(super) fn rapid(on: &Subject) -> Result<Shown, String> {
    let refused = (0..500).filter(|_| on.place.connect().is_err()).count();
    Ok(Shown { refused: Some((refused as u64, 500)), ..Shown::default() })
}

/// Clients that ask for much and read nothing for three seconds.
pub(super) fn slow_consumer(on: &Subject) -> Result<Shown, String> {
    let mut open = Vec::new();
    for id in 1..=4 {
        let mut stream = connect(&on.place)?;
        // More than the system keeps of what nobody reads.
        let text = "x".repeat(1_000_000);
        for call in 0..24 {
            let request = on.place.call(id * 100 + call, "echo", &json!({"message": text}));
            stream.set_write_timeout(Some(Duration::from_millis(200))).map_err(failed("socket"))?;
            if stream.write_all(&request).is_err() {
                break;
            }
        }
        open.push(stream);
    }
    std::thread::sleep(Duration::from_secs(3));
    Ok(Shown::default())
}

/// Two thousand calls on one connection whose answers nobody reads.
pub(super) fn exhaustion(on: &Subject) -> Result<Shown, String> {
    let mut stream = connect(&on.place)?;
    stream.set_write_timeout(Some(Duration::from_millis(500))).map_err(failed("socket"))?;
    let text = "x".repeat(64_000);
    for id in 1..=2_000 {
        let request = on.place.call(id, "echo", &json!({"message": text}));
        // It need not read on while nobody reads what it says.
        if stream.write_all(&request).is_err() {
            break;
        }
    }
    std::thread::sleep(Duration::from_secs(1));
    Ok(Shown::default())
}

/// Two hundred calls on ten connections, every second of which is closed before its answer comes: all
/// others have their own answer, once.
pub(super) fn loss(on: &Subject) -> Result<Shown, String> {
    let place = &on.place;
    let lane = |lane: u64| {
        let mut lost = Vec::new();
        let mut stream = connect(place)?;
        for at in 0..20 {
            let id = lane * 1_000 + at;
            if at % 2 == 0 {
                let mut cut = connect(place)?;
                let request = place.call(id, "echo", &json!({"message": "cut"}));
                cut.write_all(&request).map_err(failed("cannot write"))?;
                let _ = cut.shutdown(Shutdown::Both);
            } else if let Err(why) = echo(place, &mut stream, id) {
                lost.push(why);
                stream = connect(place)?;
            }
        }
        Ok::<_, String>(lost)
    };
    let lost = std::thread::scope(|scope| {
        let lanes: Vec<_> = (1..=10).map(|n| scope.spawn(move || lane(n))).collect();
        let ended = lanes
            .into_iter()
            .map(|lane| lane.join().unwrap_or_else(|_| Err("a client panicked".to_owned())));
        ended.collect::<Result<Vec<_>, _>>()
    })?;
    let lost: Vec<_> = lost.into_iter().flatten().collect();
    let complaint = lost.first().map(|why| format!("{} of 100 calls were lost: {why}", lost.len()));
    Ok(Shown { complaint, ..Shown::default() })
}

/// What is not a message is answered with an error.
pub(super) fn invalid(on: &Subject) -> Result<Shown, String> {
    let deep = "[".repeat(20_000);
    let bodies: [&[u8]; 8] = [
        b"{",
        b"null",
        b"17",
        b"{\"jsonrpc\":\"2.0\"}",
        b"{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"tools/call\"}",
        b"\xff\xfe\x00\x01",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":2,\"method\":\"tools/call\",\"params\":{}}",
        deep.as_bytes(),
    ];
    let (mut refused, mut slowest) = (0, Duration::ZERO);
    for body in bodies {
        let began = Instant::now();
        let mut stream = connect(&on.place)?;
        stream.write_all(&on.place.request(body, "echo")).map_err(failed("cannot write"))?;
        let is_refused = match read(&mut BufReader::new(&stream)) {
            // An error of HTTP, or of JSON-RPC.
            Ok(answer) => answer.status >= 400 || answer.body.contains("\"error\""),
            Err(_) => false,
        };
        refused += u64::from(is_refused);
        slowest = slowest.max(began.elapsed());
    }
    let of = bodies.len() as u64;
    let complaint = (refused < of).then(|| format!("{} of {of} were not refused", of - refused));
    Ok(Shown { detected: Some(slowest), refused: Some((refused, of)), complaint })
}

/// A hundred megabytes in one message.
pub(super) fn large(on: &Subject) -> Result<Shown, String> {
    const BYTES: usize = 100 << 20;
    let mut stream = connect(&on.place)?;
    let began = Instant::now();
    stream.write_all(on.place.head(BYTES, "echo").as_bytes()).map_err(failed("cannot write"))?;
    let piece = vec![b'x'; 1 << 20];
    let mut written = 0;
    // It may answer, or close, long before the end.
    while written < BYTES && stream.write_all(&piece).is_ok() {
        written += piece.len();
    }
    let mut begin = [0; 16];
    let read = stream.read(&mut begin);
    let detected = began.elapsed();
    let said = String::from_utf8_lossy(&begin);
    // One that neither answers nor closes has refused nothing.
    let is_closed = match &read {
        Ok(len) => *len == 0,
        Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
    };
    let is_refused = said.starts_with("HTTP/1.1 4") || is_closed && written < BYTES;
    let complaint = (!is_refused).then(|| format!("it was not refused: {}", short(&said)));
    let refused = Some((u64::from(is_refused), 1));
    Ok(Shown { detected: Some(detected), refused, complaint })
}

/// Sixteen connections with two hundred calls each that wait, all at once: each is answered or refused.
pub(super) fn flood(on: &Subject) -> Result<Shown, String> {
    const EACH: u64 = 200;
    let place = &on.place;
    let lane = |lane: u64| {
        let stream = connect(place)?;
        let mut writer = stream.try_clone().map_err(failed("cannot clone a socket"))?;
        let write = move || {
            for id in 0..EACH {
                let call = call(lane * EACH + id, "sleep", &json!({"ms": 5})).to_string();
                if writer.write_all(&place.request(call.as_bytes(), "sleep")).is_err() {
                    break;
                }
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(write);
            let (mut answered, mut refused) = (0, 0);
            let mut reader = BufReader::new(&stream);
            let until = Instant::now() + PATIENCE * 4;
            while answered + refused < EACH && Instant::now() < until {
                match read(&mut reader) {
                    Ok(answer) if answer.status == 200 && answer.body.contains("\"result\"") => {
                        answered += 1;
                    }
                    Ok(_) => refused += 1,
                    Err(_) => break,
                }
            }
            let _ = stream.shutdown(Shutdown::Both);
            Ok::<_, String>((answered, refused))
        })
    };
    let all = std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..16).map(|n| scope.spawn(move || lane(n))).collect();
        let ended = lanes
            .into_iter()
            .map(|lane| lane.join().unwrap_or_else(|_| Err("a client panicked".to_owned())));
        ended.collect::<Result<Vec<_>, _>>()
    })?;
    let (answered, refused) = all.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let of = 16 * EACH;
    let complaint = (answered + refused < of).then(|| {
        format!("{} of {of} calls had neither an answer nor a refusal", of - answered - refused)
    });
    Ok(Shown { refused: Some((refused, of)), complaint, ..Shown::default() })
}

/// The processes below it are killed.
pub(super) fn crash(on: &Subject) -> Result<Shown, String> {
    let children = on.children();
    if children.is_empty() {
        return Err("there is no process below it".to_owned());
    }
    for pid in &children {
        if let Some(pid) = i32::try_from(*pid).ok().and_then(Pid::from_raw) {
            // One that has just ended is as dead.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
    let began = Instant::now();
    let until = began + PATIENCE;
    while Instant::now() < until {
        let now = on.children();
        if !now.is_empty() && !now.iter().any(|pid| children.contains(pid)) {
            return Ok(Shown { detected: Some(began.elapsed()), ..Shown::default() });
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let complaint = Some("no process came in the place of those that were killed".to_owned());
    Ok(Shown { complaint, ..Shown::default() })
}

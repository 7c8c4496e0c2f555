//! Servers that are broken on purpose, each in one way: a scenario that passes on the one that has its
//! flaw could not fail anywhere.
//!
//! They speak just enough of Streamable HTTP of 2026-07-28 for `echo` and `sleep`, a thread for each
//! connection, and share no code with what is tested.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Value, json};

/// What is wrong with a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "there are these")]
pub enum Flaw {
    /// Nothing: what fails here fails for something else than a flaw.
    None,
    /// It never closes a connection.
    Leaks,
    /// It takes what the first read gives for all of the request.
    ReadsOnce,
    /// It works on one request at a time, from its first byte to the last one of its answer, whoever waits.
    OneAtATime,
    /// It keeps all that it has read and written.
    Hoards,
    /// It reads on, and keeps what nobody takes from it.
    ReadsOn,
    /// For each client that closes too soon it loses another one's answer.
    LosesAfterCut,
    /// It loses answers once more than eight calls are there at once.
    LosesUnderLoad,
    /// It takes everything for a call of `echo`.
    Believes,
    /// It ends with a process below it, and does not start it again.
    StaysDown,
}

impl Flaw {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::None,
        Self::Leaks,
        Self::ReadsOnce,
        Self::OneAtATime,
        Self::Hoards,
        Self::ReadsOn,
        Self::LosesAfterCut,
        Self::LosesUnderLoad,
        Self::Believes,
        Self::StaysDown,
    ];

    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Leaks => "leaks",
            Self::ReadsOnce => "reads_once",
            Self::OneAtATime => "one_at_a_time",
            Self::Hoards => "hoards",
            Self::ReadsOn => "reads_on",
            Self::LosesAfterCut => "loses_after_cut",
            Self::LosesUnderLoad => "loses_under_load",
            Self::Believes => "believes",
            Self::StaysDown => "stays_down",
        }
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Flaw {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let flaw = Self::ALL.into_iter().find(|flaw| flaw.as_str() == text);
        flaw.ok_or_else(|| format!("no flaw is called `{text}`"))
    }
}

/// What a server that hoards has kept.
static KEPT: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// Answers that a server that loses some still has to lose.
static DEBT: AtomicU64 = AtomicU64::new(0);

/// Calls that are there at once, and how many one that loses some keeps up with.
static AT_ONCE: AtomicU64 = AtomicU64::new(0);
const AT_ONCE_MAX: u64 = 8;

/// The one request that is worked on.
static TURN: Mutex<()> = Mutex::new(());

/// Most bytes that it makes of one message on the way.
const HOARD_MAX: usize = 64 << 10;

/// Longest message that a server takes that does not hoard.
const MESSAGE_MAX: usize = 4 << 20;

/// Serves at a free port of this machine, and says where on stdout, for as long as stdin is open.
///
/// # Errors
/// The system refuses the port, or a process.
pub fn serve(flaw: Flaw) -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut stdout = io::stdout();
    writeln!(stdout, "http://{}/mcp", listener.local_addr()?)?;
    stdout.flush()?;
    if matches!(flaw, Flaw::None | Flaw::StaysDown) {
        let below = || Command::new("sleep").arg("600").stdin(Stdio::null()).spawn();
        let mut first = below()?;
        std::thread::spawn(move || {
            let _ = first.wait();
            if flaw == Flaw::StaysDown {
                std::process::exit(1);
            }
            loop {
                let _ = below().and_then(|mut next| next.wait());
            }
        });
    }
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let ended = talk(&stream, flaw);
                if flaw == Flaw::Leaks {
                    std::mem::forget(stream);
                }
                drop(ended);
            });
        }
    });
    io::copy(&mut io::stdin(), &mut io::sink()).map(drop)
}

/// Answers the requests of one connection.
fn talk(stream: &TcpStream, flaw: Flaw) -> io::Result<()> {
    let (mut reader, mut writer) = (BufReader::new(stream), stream.try_clone()?);
    let later = (flaw == Flaw::ReadsOn).then(|| {
        let (later, whole) = mpsc::channel::<Vec<u8>>();
        let mut writer = writer.try_clone();
        std::thread::spawn(move || {
            for bytes in whole {
                if !writer.as_mut().is_ok_and(|writer| writer.write_all(&bytes).is_ok()) {
                    break;
                }
            }
        });
        later
    });
    loop {
        // Waiting for the next request is nobody's turn.
        reader.fill_buf()?;
        let _turn = (flaw == Flaw::OneAtATime).then(|| TURN.lock());
        let Some(body) = request(&mut reader, flaw)? else { return Ok(()) };
        if flaw == Flaw::LosesAfterCut && is_cut(stream)? {
            DEBT.fetch_add(1, Ordering::Relaxed);
        }
        let at_once = AT_ONCE.fetch_add(1, Ordering::Relaxed);
        let answer = answer(&body, flaw);
        AT_ONCE.fetch_sub(1, Ordering::Relaxed);
        let owes = || {
            let less = |debt: u64| debt.checked_sub(1);
            DEBT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
        };
        let is_lost = match flaw {
            Flaw::LosesAfterCut => owes(),
            Flaw::LosesUnderLoad => at_once > AT_ONCE_MAX,
            _ => false,
        };
        if is_lost {
            continue;
        }
        let (status, answer) = match answer {
            Some(answer) => ("200 OK", answer.to_string()),
            None => ("400 Bad Request", String::new()),
        };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            answer.len()
        );
        let whole = [head.as_bytes(), answer.as_bytes()].concat();
        match &later {
            // Without a bound.
            Some(later) => drop(later.send(whole.clone())),
            None => writer.write_all(&whole)?,
        }
        if flaw == Flaw::Hoards {
            let mut kept = KEPT.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            // With what a careless server makes of a message on the way.
            kept.push([&*body, &whole, &vec![1; (8 * body.len()).min(HOARD_MAX)]].concat());
        }
    }
}

/// Whether the client has closed before it has its answer.
fn is_cut(stream: &TcpStream) -> io::Result<bool> {
    stream.set_nonblocking(true)?;
    let rest = stream.peek(&mut [0]);
    stream.set_nonblocking(false)?;
    Ok(rest.is_ok_and(|len| len == 0))
}

/// The body of the next request; `None` at the end.
fn request(reader: &mut BufReader<&TcpStream>, flaw: Flaw) -> io::Result<Option<Vec<u8>>> {
    if flaw == Flaw::ReadsOnce {
        let bytes = reader.fill_buf()?.to_vec();
        reader.consume(bytes.len());
        let head = bytes.windows(4).position(|end| end == b"\r\n\r\n").map(|at| at + 4);
        let body = bytes.get(head.unwrap_or(bytes.len())..).unwrap_or_default().to_vec();
        return Ok((!bytes.is_empty()).then_some(body));
    }
    let (mut line, mut length) = (String::new(), 0);
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let line = line.trim_end().to_ascii_lowercase();
        match line.split_once(':') {
            Some(("content-length", value)) => length = value.trim().parse().unwrap_or(0),
            _ if line.is_empty() => break,
            _ => {}
        }
    }
    if length > MESSAGE_MAX && flaw != Flaw::Hoards {
        return Ok(None);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Some(body))
}

/// The answer to a call; `None` if that is no call.
fn answer(body: &[u8], flaw: Flaw) -> Option<Value> {
    let parsed = serde_json::from_slice::<Value>(body).ok();
    let message = match (parsed, flaw) {
        (Some(message), _) => message,
        (None, Flaw::Believes) => json!({}),
        (None, _) => return None,
    };
    let is_call = message.get("jsonrpc").is_some_and(|version| version == "2.0")
        && message.get("id").is_some()
        && message.pointer("/params/name").is_some();
    if !is_call && flaw != Flaw::Believes {
        return None;
    }
    let argument = |name: &str| message.pointer(&format!("/params/arguments/{name}")).cloned();
    if let Some(ms) = argument("ms").and_then(|ms| ms.as_u64()) {
        std::thread::sleep(Duration::from_millis(ms));
    }
    let text = argument("message").unwrap_or_else(|| "done".into());
    let content = json!([{"type": "text", "text": text}]);
    let result = json!({"resultType": "complete", "content": content});
    Some(json!({"jsonrpc": "2.0", "id": message.get("id"), "result": result}))
}

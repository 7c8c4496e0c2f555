//! One transcript: read, played, compared.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mcplane::proto::Revision;
use mcplane::transport::{Transport, memory};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, Lines};
use tokio::time::timeout;

use crate::server;

/// How long the server may take to say something that it must say.
const PATIENCE: Duration = Duration::from_secs(20);

/// What every revision has a transcript of.
const TOPICS: [&str; 12] = [
    "cancellation",
    "changes",
    "completion",
    "elicitation",
    "errors",
    "handshake",
    "logging",
    "progress",
    "prompts",
    "resources",
    "roots",
    "tools",
];

/// Plays every transcript of a revision, each on a connection to a server of its own.
pub(crate) fn play_all(revision: Revision) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("wire").join(revision.as_str());
    let entries = fs::read_dir(&folder).expect("the folder of the revision");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for topic in TOPICS {
        let path = folder.join(topic).with_extension("txt");
        assert!(paths.contains(&path), "{} is missing", path.display());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut failures = String::new();
    for path in paths {
        let text = fs::read_to_string(&path).unwrap();
        if let Err((line, why)) = runtime.block_on(play(&text)) {
            let name = path.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap_or(&path).display();
            writeln!(failures, "tests/{name}:{line}: {why}\n").unwrap();
        }
    }
    assert!(failures.is_empty(), "\n{failures}");
}

/// Plays one transcript. A failure is its line and what is wrong there.
async fn play(text: &str) -> Result<(), (usize, String)> {
    let (ours, theirs) = memory::pair();
    let service = server::wire().start().expect("the server is well put together");
    let served = tokio::spawn(async move { service.serve(theirs).await });
    let (reader, writer) = ours.open().unwrap();
    let mut client = Client {
        lines: BufReader::new(reader).lines(),
        writer: Some(writer),
        known: HashMap::new(),
    };
    let mut last = 0;
    for (number, line) in (1..).zip(text.lines()) {
        last = number;
        client.line(line).await.map_err(|why| (number, why))?;
    }
    client.end().await.map_err(|why| (last, why))?;
    match timeout(PATIENCE, served).await {
        Ok(Ok(Ok(()))) => Ok(()),
        other => Err((last, format!("the server ended badly: {other:?}"))),
    }
}

struct Client<R, W> {
    lines: Lines<BufReader<R>>,
    writer: Option<W>,
    /// What was captured, by name.
    known: HashMap<String, Value>,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Client<R, W> {
    async fn line(&mut self, line: &str) -> Result<(), String> {
        let (mark, rest) = line.split_once(' ').unwrap_or((line, ""));
        match mark {
            "" | "#" => Ok(()),
            ">" if rest.is_empty() => self.close().await,
            ">" => {
                let mut text = rest.to_owned();
                for (name, value) in &self.known {
                    text = text.replace(&format!("\"$echo:{name}\""), &value.to_string());
                }
                self.send(text.into_bytes()).await
            }
            ">!" => self.send(unescape(rest)?).await,
            "<" => {
                let expected = serde_json::from_str(rest).map_err(|e| format!("bad line: {e}"))?;
                let found = self.receive().await?.ok_or("the server closed its side")?;
                self.compare(&expected, &found, "")
                    .map_err(|why| format!("{why}\n  expected {rest}\n  found    {found}"))
            }
            _ => Err(format!("a line begins with `>`, `>!`, `<` or `#`, not {mark:?}")),
        }
    }

    async fn send(&mut self, mut line: Vec<u8>) -> Result<(), String> {
        line.push(b'\n');
        let writer = self.writer.as_mut().ok_or("the client's side is closed")?;
        let sent = timeout(PATIENCE, writer.write_all(&line)).await;
        sent.map_err(|_| "the server reads no more")?.map_err(|error| error.to_string())
    }

    async fn receive(&mut self) -> Result<Option<Value>, String> {
        let line = timeout(PATIENCE, self.lines.next_line()).await;
        let line = line.map_err(|_| "the server says nothing")?.map_err(|e| e.to_string())?;
        let parse = |line: String| serde_json::from_str(&line).map_err(|e| format!("{e}: {line}"));
        line.map(parse).transpose()
    }

    async fn close(&mut self) -> Result<(), String> {
        match self.writer.take() {
            Some(mut writer) => writer.shutdown().await.map_err(|error| error.to_string()),
            None => Ok(()),
        }
    }

    async fn end(&mut self) -> Result<(), String> {
        self.close().await?;
        match self.receive().await? {
            None => Ok(()),
            Some(more) => Err(format!("the server says more than it should: {more}")),
        }
    }

    /// Where and how two values differ.
    fn compare(&mut self, expected: &Value, found: &Value, at: &str) -> Result<(), String> {
        let same = match (expected, found) {
            (Value::String(text), _) if text == "$any" => true,
            (Value::String(text), _) if text.starts_with("$capture:") => {
                self.known.insert(text.replacen("$capture:", "", 1), found.clone());
                true
            }
            (Value::String(text), _) if text.starts_with("$echo:") => {
                self.known.get(&text["$echo:".len()..]) == Some(found)
            }
            // `1` and `1.0` are one number.
            (Value::Number(one), Value::Number(other)) => {
                one == other || one.as_f64() == other.as_f64()
            }
            (Value::Array(ones), Value::Array(others)) if ones.len() == others.len() => {
                for (index, (one, other)) in ones.iter().zip(others).enumerate() {
                    self.compare(one, other, &format!("{at}/{index}"))?;
                }
                true
            }
            (Value::Object(ones), Value::Object(others)) => {
                if let Some(key) = others.keys().find(|key| !ones.contains_key(*key)) {
                    return Err(format!("{at}/{key} is not expected"));
                }
                for (key, one) in ones {
                    let other = others.get(key).ok_or_else(|| format!("{at}/{key} is missing"))?;
                    self.compare(one, other, &format!("{at}/{key}"))?;
                }
                true
            }
            _ => expected == found,
        };
        if same { Ok(()) } else { Err(format!("{at}/ should be {expected}, but is {found}")) }
    }
}

/// `\xNN` is a byte, `\{N:text}` is text N times over, any other backslash itself.
fn unescape(text: &str) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        out.extend_from_slice(before.as_bytes());
        if let Some(hex) = after.strip_prefix('x').and_then(|hex| hex.get(..2)) {
            out.push(u8::from_str_radix(hex, 16).map_err(|error| error.to_string())?);
            rest = &after[3..];
        } else if let Some(repeat) = after.strip_prefix('{') {
            let (inner, tail) = repeat.split_once('}').ok_or("a `\\{` is not closed")?;
            let (count, piece) = inner.split_once(':').ok_or("`\\{` wants `count:text`")?;
            let count: usize = count.parse().map_err(|_| "the count is no number")?;
            out.extend_from_slice(piece.repeat(count).as_bytes());
            rest = tail;
        } else {
            out.push(b'\\');
            rest = after;
        }
    }
    out.extend_from_slice(rest.as_bytes());
    Ok(out)
}

#[test]
fn transcripts_fail_when_they_should() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let ping = r#"> {"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let cases = [
        (r#"< {"jsonrpc":"2.0","id":1,"result":{}}"#, None),
        (r#"< {"result":"$any","id":1,"jsonrpc":"2.0"}"#, None),
        (r#"< {"jsonrpc":"2.0","id":"1","result":{}}"#, Some("/id/ should be \"1\"")),
        (r#"< {"jsonrpc":"2.0","id":1}"#, Some("/result is not expected")),
        (r#"< {"jsonrpc":"2.0","id":1,"result":{"a":1}}"#, Some("/result/a is missing")),
        ("# silence", Some("says more than it should")),
        ("<", Some("bad line")),
        ("? what", Some("begins with")),
    ];
    for (line, expected) in cases {
        let found = runtime.block_on(play(&format!("{ping}\n{line}"))).err().map(|(_, why)| why);
        let fits = match (&found, expected) {
            (Some(found), Some(expected)) => found.contains(expected),
            (found, expected) => found.is_none() && expected.is_none(),
        };
        assert!(fits, "{line}: {found:?}");
    }
    assert_eq!(unescape(r"a\xffb\{3:xy}\n").unwrap(), b"a\xffbxyxyxy\\n");
}

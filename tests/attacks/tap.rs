//! What stands before a listener and notes what goes through, on each connection.

use std::{
    io::{self, Read, Write as _},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

/// Ends with whoever holds it.
pub struct Wiretap {
    pub address: SocketAddr,
    heard: Said,
    answered: Said,
    ends: Arc<AtomicBool>,
}

/// What was said on each connection so far.
type Said = Arc<Mutex<Vec<Vec<u8>>>>;

impl Wiretap {
    pub fn before(door: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let tap = Self {
            address,
            heard: Said::default(),
            answered: Said::default(),
            ends: Arc::new(AtomicBool::new(false)),
        };
        let (heard, answered) = (Arc::clone(&tap.heard), Arc::clone(&tap.answered));
        let ends = Arc::clone(&tap.ends);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if ends.load(Ordering::Relaxed) {
                    return;
                }
                let server = TcpStream::connect(door).unwrap();
                for (from, to, said) in [(&client, &server, &heard), (&server, &client, &answered)]
                {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let said = Arc::clone(said);
                    thread::spawn(move || note(from, to, &said));
                }
            }
        });
        tap
    }

    /// Fails the test unless one connection brought all of this.
    #[track_caller]
    pub fn heard(&self, wanted: &[&str]) {
        let heard = texts(&self.heard);
        let found = heard.iter().any(|heard| wanted.iter().all(|wanted| heard.contains(wanted)));
        assert!(found, "nothing with {wanted:?} in {heard:#?}");
    }

    /// Everything that came.
    pub fn all(&self) -> String {
        texts(&self.heard).join("\n")
    }

    /// Everything that went back.
    pub fn answers(&self) -> String {
        texts(&self.answered).join("\n")
    }
}

impl Drop for Wiretap {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
    }
}

fn texts(said: &Said) -> Vec<String> {
    let said = said.lock().unwrap();
    said.iter().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).collect()
}

/// Passes on what one side says, and goes on listening when the other does not.
fn note(mut from: TcpStream, mut to: TcpStream, said: &Said) {
    let number = {
        let mut said = said.lock().unwrap();
        said.push(Vec::new());
        said.len() - 1
    };
    let mut piece = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut piece) {
        said.lock().unwrap()[number].extend_from_slice(&piece[..count]);
        let _: io::Result<()> = to.write_all(&piece[..count]);
    }
    let _ = to.shutdown(Shutdown::Write);
}

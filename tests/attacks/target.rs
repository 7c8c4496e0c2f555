//! What is attacked: the gateway, a server written with the library, and the fixture. Each has every
//! kind of listener, and a tool `echo`.

use std::{
    future::pending,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
        mpsc,
    },
    thread,
};

use mcplane::{
    Server, Service, State,
    transport::{
        http::server::{ConnectionLimits, Endpoint, serve},
        listen::{self, Limits, Listener},
        websocket,
    },
};
use mcplane_tests::child::{Listening, binary};

use crate::{
    door::{Door, Era, Place, Talk},
    gateway::{Gateway, good},
};

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    Gateway,
    Library,
    Fixture,
}

impl Name {
    pub const ALL: [Self; 3] = [Self::Gateway, Self::Library, Self::Fixture];

    /// The listeners that it has. The library's server is a part of this process, so the fixture
    /// stands for it on standard input and output.
    pub fn doors(self) -> impl Iterator<Item = Door> {
        Door::ALL.into_iter().filter(move |door| self != Self::Library || *door != Door::Stdio)
    }
}

/// One that runs.
pub struct Target {
    name: Name,
    places: Vec<(Door, Place)>,
    gateway: Option<Gateway>,
    calls: Calls,
    #[allow(dead_code, reason = "ends with the target")]
    fixtures: Vec<Listening>,
}

impl Target {
    pub fn start(name: Name) -> Self {
        match name {
            Name::Gateway => gateway(),
            Name::Library => library(),
            Name::Fixture => fixture(),
        }
    }

    /// Where a listener is.
    pub fn place(&self, door: Door) -> &Place {
        let place = self.places.iter().find(|(at, _)| *at == door);
        &place.unwrap_or_else(|| panic!("{:?} has no {door:?}", self.name)).1
    }

    /// A client inside. On standard input and output it is the only one of a process of its own.
    pub fn talk(&self, door: Door, era: Era) -> Talk {
        if door != Door::Stdio {
            return Talk::through(door, self.place(door), era);
        }
        let mut talk = match self.name {
            Name::Gateway => {
                let mut gateway = Gateway::serve_words(&["--listen", "stdio"]);
                let (reader, writer) = gateway.pipes();
                Talk::over(reader, writer).holding(gateway)
            }
            _ => {
                let mut command = Command::new(binary());
                command.arg("fixture").stdin(Stdio::piped()).stdout(Stdio::piped());
                let mut child = command.spawn().unwrap();
                let (reader, writer) = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
                Talk::over(reader, writer).holding(Program(child))
            }
        };
        if era == Era::Legacy {
            talk.shake_hands();
        }
        talk
    }

    /// How many sessions are open, where that can be known.
    pub fn sessions(&self) -> Option<u64> {
        self.gateway.as_ref()?.status()["sessions"].as_u64()
    }

    /// How many calls have come to a tool, where that can be known.
    pub fn calls(&self) -> Option<u64> {
        match (&self.gateway, self.name) {
            (Some(gateway), _) => {
                let server = gateway.server("good", |server| server["state"] == "healthy");
                let workers = server["workers"].as_array()?;
                Some(workers.iter().filter_map(|worker| worker["calls"].as_u64()).sum())
            }
            (None, Name::Library) => Some(self.calls.0.load(Ordering::Relaxed)),
            (None, _) => None,
        }
    }
}

/// A program that ends with whoever holds it.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        for (_, place) in &self.places {
            if let Place::Socket(path) = place {
                // Whoever is killed leaves it behind.
                let _ = std::fs::remove_file(path);
            }
        }
    }
}

fn gateway() -> Target {
    let listen = "listen = [\"127.0.0.1:0\", \"tcp://127.0.0.1:0\", \"unix:gateway.sock\"]\n";
    let gateway = Gateway::serve(&(listen.to_owned() + &good()));
    gateway.offers("good", "echo");
    let tcp = gateway.addresses(3)[1].strip_prefix("tcp://").unwrap().parse().unwrap();
    let http = Place::At(gateway.address());
    let places = vec![
        (Door::Tcp, Place::At(tcp)),
        (Door::Unix, Place::Socket(gateway.file("gateway.sock"))),
        (Door::Http, http.clone()),
        (Door::Sse, http.clone()),
        (Door::WebSocket, http),
    ];
    Target {
        name: Name::Gateway,
        places,
        gateway: Some(gateway),
        calls: Calls::default(),
        fixtures: Vec::new(),
    }
}

fn fixture() -> Target {
    let socket = socket();
    let unix = format!("unix:{}", socket.display());
    let mut fixtures = Vec::new();
    let mut places = vec![(Door::Unix, Place::Socket(socket))];
    for (door, transport) in [
        (Door::Tcp, "tcp"),
        (Door::Unix, "unix"),
        (Door::Http, "http"),
        (Door::Sse, "sse"),
        (Door::WebSocket, "ws"),
    ] {
        let mut words = vec!["--transport", transport, "--accept-rate", "0"];
        if door == Door::Unix {
            words.extend(["--listen", &unix]);
        }
        let fixture = Listening::start(&words);
        if door != Door::Unix {
            // scheme://HOST:PORT/path
            let address = fixture.url.split('/').nth(2).unwrap().parse().unwrap();
            places.push((door, Place::At(address)));
        }
        fixtures.push(fixture);
    }
    Target { name: Name::Fixture, places, gateway: None, calls: Calls::default(), fixtures }
}

/// How often the tool of a server of the library ran.
#[derive(Clone, Default)]
struct Calls(Arc<AtomicU64>);

/// Says it again.
#[mcplane::tool]
fn echo(calls: &State<Calls>, message: &str) -> String {
    calls.0.fetch_add(1, Ordering::Relaxed);
    message.to_owned()
}

/// In this process, on a thread that ends with it.
fn library() -> Target {
    let socket = socket();
    let unix = format!("unix:{}", socket.display());
    let (tell, told) = mpsc::channel();
    let calls = Calls::default();
    let counted = calls.clone();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let service = Server::new("library", "1").state(counted).tool(echo).start().unwrap();
            let bind = async |address: &str| {
                let limits = Limits::default().accepts_per_s(0);
                Listener::bind(&address.parse().unwrap(), limits).await.unwrap()
            };
            let [http, tcp] = [bind("127.0.0.1:0").await, bind("127.0.0.1:0").await];
            let unix = bind(&unix).await;
            let at = |listener: &Listener| {
                Place::At(listener.local_address().to_string().parse().unwrap())
            };
            tell.send((at(&http), at(&tcp))).unwrap();
            tokio::join!(
                serve(http, endpoint(&service), ConnectionLimits::default(), pending()),
                listen::serve(tcp, service.clone(), pending()),
                listen::serve(unix, service.clone(), pending()),
            );
        });
    });
    let (http, tcp) = told.recv().unwrap();
    let places = vec![
        (Door::Tcp, tcp),
        (Door::Unix, Place::Socket(socket)),
        (Door::Http, http.clone()),
        (Door::Sse, http.clone()),
        (Door::WebSocket, http),
    ];
    Target { name: Name::Library, places, gateway: None, calls, fixtures: Vec::new() }
}

fn endpoint(service: &Service) -> Endpoint {
    Endpoint::builder(service.clone())
        .websocket(websocket::Config::default())
        .legacy_sse("/sse", "/message")
        .build()
}

/// A path for a Unix socket: in a short folder, for it has a hundred bytes or so.
fn socket() -> std::path::PathBuf {
    static LAST: AtomicUsize = AtomicUsize::new(0);
    let number = LAST.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("mcplane-{}-{number}.sock", std::process::id()));
    let _ = std::fs::remove_file(&path);
    path
}

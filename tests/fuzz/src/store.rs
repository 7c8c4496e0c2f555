//! The lists that are kept on the disk: a file may hold anything, and what is believed of it can be
//! kept and found again.

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use mcplane_gateway::catalog::{Loaded, Offer, Store};
use mcplane_proto::types::ServerCapabilities;
use mcplane_proto::version::Revision;

const SERVER: &str = "server";
const IDENTITY: &str = "command";

/// Any bytes: what is behind the head of a file, or all of it.
pub fn run(data: &[u8]) {
    let [choice, data @ ..] = data else { return };
    let kept = kept();
    let head = if choice % 2 == 0 { kept.head.as_slice() } else { &[] };
    fs::write(&kept.file, [head, data].concat()).expect("a file of our own");
    match kept.store.load(SERVER, IDENTITY) {
        Loaded::Offer(offer) => {
            kept.store.save(SERVER, IDENTITY, &offer).expect("it was read, so it can be written");
            let Loaded::Offer(again) = kept.store.load(SERVER, IDENTITY) else {
                panic!("what was kept is not found: {offer:?}")
            };
            assert!(offer.lists_the_same(&again), "{offer:?}");
            let about = |offer: &Offer| {
                let Offer { info, revision, capabilities, instructions, seen_ms, .. } = offer;
                format!("{info:?} {revision:?} {capabilities:?} {instructions:?} {seen_ms}")
            };
            assert_eq!(about(&again), about(&offer));
        }
        Loaded::Ignored(why) => assert!(why.contains("ignoring") && why.len() < 4096, "{why}"),
        Loaded::Nothing => panic!("there is a file"),
    }
}

/// A folder of this process, and the file in it.
struct Kept {
    store: Store,
    file: PathBuf,
    /// As far as the first list.
    head: Vec<u8>,
}

fn kept() -> &'static Kept {
    static KEPT: OnceLock<Kept> = OnceLock::new();
    KEPT.get_or_init(|| {
        let folder = std::env::temp_dir().join(format!("mcplane-fuzz-{}", std::process::id()));
        let store = Store::new(&folder);
        let offer = Offer::new(Some(Revision::LATEST_LEGACY), ServerCapabilities::new());
        store.save(SERVER, IDENTITY, &offer).expect("a folder of our own");
        let mut files = fs::read_dir(&folder).expect("it was made");
        let file = files.next().expect("a file").expect("its name").path();
        let text = fs::read(&file).expect("what was kept");
        let end = text.windows(9).position(|at| at == b",\"tools\":").expect("the first list");
        Kept { store, file, head: text[..end].to_vec() }
    })
}

//! One reading of all that an upstream lists.
//!
//! Each list stands for itself: one that fails, or does not come, leaves the others to be served, and
//! what was known of it before.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mcplane::proto::error::{Code, ErrorObject};
use mcplane::proto::limits::CACHE_TTL_MAX;
use mcplane::proto::message::write;
use mcplane::proto::session::Peer;
use mcplane::proto::types::ServerCapabilities;
use mcplane::proto::version::Revision;
use tokio::task::JoinSet;
use tokio::time::{Instant as Moment, sleep_until};

use super::model::{Pool, Worker};
use super::worker::is_modern;
use crate::catalog::{Changes, Kind, Offer};
use crate::clock;

/// Most pages of one list.
const PAGES_MAX: usize = 100;

/// How often the settings' `list_deadline` a list may take. It is served without before.
const DEADLINES: u32 = 4;

/// Shortest time that a list is given.
const PATIENCE_MIN: Duration = Duration::from_secs(1);

/// The least time for which lists are not read again for clients that ask, whatever `ttlMs` says: a
/// client that asks all the time is one reading each time.
pub(super) const FRESH_MIN: Duration = Duration::from_secs(10);

/// How one list is.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListState {
    /// When it was last read to its end.
    pub(crate) read: Option<Instant>,
    /// Why that failed when it was tried last.
    pub(crate) error: Option<String>,
}

/// The lists that are being read.
pub(super) struct Reading {
    tasks: JoinSet<(Kind, Result<Box<List>, ErrorObject>)>,
    /// What is offered as far as it is known.
    offer: Offer,
    /// How many lists have come, and how many will not.
    pub(super) good: usize,
    pub(super) bad: usize,
    /// When what is there is shown without the rest.
    late: Moment,
    /// Lists that come now are shown one by one.
    pub(super) is_shown: bool,
    /// Something came that is not shown.
    is_new: bool,
    /// What was said to have changed.
    pub(super) announced: Changes,
    /// What was shown is not what was shown before.
    pub(super) is_other: bool,
    /// How long the lists are not too old; `None` if their server tells of changes.
    pub(super) fresh_for: Option<Duration>,
}

/// One list, in an offer without any others.
pub(super) struct List {
    offer: Offer,
    /// The shortest time of its pages for which they are fresh.
    ttl: Option<Duration>,
}

/// What comes next of a reading.
pub(super) enum Step {
    Read(Kind, Result<Box<List>, ErrorObject>),
    /// The others should wait no longer for those that are missing.
    Late,
    Done,
}

impl Reading {
    /// Asks a worker for the lists that its server declares. Must be called in a tokio runtime; to
    /// drop it is to give it up.
    pub(super) fn begin(
        pool: Arc<Pool>,
        worker: &Arc<Worker>,
        peer: &Peer,
        kept: Option<&Offer>,
        patience: Duration,
    ) -> Self {
        let capabilities: ServerCapabilities = peer
            .capabilities
            .as_deref()
            .and_then(|json| serde_json::from_str(json.get()).ok())
            .unwrap_or_default();
        let known = peer.capabilities.is_some();
        let offers = |kind| match kind {
            _ if !known => true,
            Kind::Tools => capabilities.tools(),
            Kind::Prompts => capabilities.prompts(),
            Kind::Resources | Kind::Templates => capabilities.resources(),
        };
        let mut offer = Offer::new(Some(peer.revision), capabilities.clone());
        offer.info = peer.info.as_deref().and_then(|json| serde_json::from_str(json.get()).ok());
        offer.instructions = peer.instructions.clone();
        let mut tasks = JoinSet::new();
        for kind in Kind::ALL.into_iter().filter(|kind| offers(*kind)) {
            kept.into_iter().for_each(|kept| offer.adopt(kind, kept));
            let (pool, worker, revision) = (Arc::clone(&pool), Arc::clone(worker), peer.revision);
            let patience = patience.max(PATIENCE_MIN) * DEADLINES;
            tasks
                .spawn(async move { (kind, read(&pool, &worker, kind, revision, patience).await) });
        }
        let late = Moment::now() + patience;
        Self {
            tasks,
            offer,
            good: 0,
            bad: 0,
            late,
            is_shown: false,
            is_new: false,
            announced: Changes::default(),
            is_other: false,
            fresh_for: None,
        }
    }

    pub(super) fn take(
        &mut self,
        kind: Kind,
        list: Result<Box<List>, ErrorObject>,
        max_age: Option<Duration>,
    ) {
        match list {
            Ok(list) => {
                self.offer.adopt(kind, &list.offer);
                let time = list.ttl.map(|ttl| ttl.clamp(FRESH_MIN, CACHE_TTL_MAX));
                let time = time.or_else(|| max_age.filter(|_| !self.is_told(kind)));
                self.fresh_for = self.fresh_for.into_iter().chain(time).min();
                self.is_new = true;
                self.good += 1;
            }
            Err(_) => self.bad += 1,
        }
    }

    /// Whether the server says that it tells when this list changes.
    fn is_told(&self, kind: Kind) -> bool {
        let declared = &self.offer.capabilities;
        match kind {
            Kind::Tools => declared.tools_list_changed(),
            Kind::Prompts => declared.prompts_list_changed(),
            Kind::Resources | Kind::Templates => declared.resources_list_changed(),
        }
    }

    /// Whether every list has come.
    pub(super) fn is_all(&self) -> bool {
        self.tasks.is_empty() && self.bad == 0
    }

    /// What there is to show that was not shown before.
    pub(super) fn show(&mut self) -> Option<Offer> {
        let is_first = !std::mem::replace(&mut self.is_shown, true);
        let is_new = std::mem::take(&mut self.is_new);
        // Who declares no list has nothing that could come.
        let is_nothing = is_first && self.is_all();
        if !is_new && !is_nothing {
            return None;
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.offer.seen_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        Some(self.offer.clone())
    }
}

/// What comes next; nothing ever, if nothing is being read. Cancel safe.
pub(super) async fn next(reading: &mut Option<Reading>) -> Step {
    let Some(reading) = reading else { return std::future::pending().await };
    loop {
        tokio::select! {
            biased;
            read = reading.tasks.join_next() => match read {
                None => return Step::Done,
                Some(Ok((kind, list))) => return Step::Read(kind, list),
                // It panicked: a list that does not come.
                Some(Err(_)) => reading.bad += 1,
            },
            () = sleep_until(reading.late), if !reading.is_shown && reading.is_new => {
                return Step::Late;
            }
        }
    }
}

/// One list, page by page.
async fn read(
    pool: &Pool,
    worker: &Worker,
    kind: Kind,
    revision: Revision,
    patience: Duration,
) -> Result<Box<List>, ErrorObject> {
    let mut ttl = None;
    let mut list = Offer::new(Some(revision), ServerCapabilities::default());
    let (method, deadline) = (kind.method(), clock::now() + patience);
    let mut cursor: Option<String> = None;
    for _ in 0..PAGES_MAX {
        let mut params = b"{".to_vec();
        if let Some(cursor) = &cursor {
            params.extend_from_slice(b"\"cursor\":");
            write::string(&mut params, cursor);
        }
        params.push(b'}');
        let patience = deadline.saturating_duration_since(clock::now());
        let page = match pool.ask(worker, method, params, patience).await {
            Ok(page) => page,
            // What is declared need not be there: templates, for one.
            Err(error) if error.code == Code::METHOD_NOT_FOUND => break,
            Err(error) => return Err(error),
        };
        if is_modern(revision) {
            ttl = ttl.into_iter().chain(ttl_of(&page)).min();
        }
        let malformed = |error: crate::catalog::offer::PageError| {
            ErrorObject::new(Code::INTERNAL_ERROR, error.to_string())
        };
        let next = list.add_page(method, &page).map_err(malformed)?;
        match next {
            Some(next) if cursor.as_ref() != Some(&next) => cursor = Some(next),
            _ => break,
        }
    }
    Ok(Box::new(List { offer: list, ttl }))
}

/// How long a page is fresh (2026-07-28 caching, SEP-2549).
fn ttl_of(page: &[u8]) -> Option<Duration> {
    #[derive(serde::Deserialize)]
    struct Page {
        #[serde(rename = "ttlMs")]
        ttl_ms: u64,
    }
    let page: Page = serde_json::from_slice(page).ok()?;
    Some(Duration::from_millis(page.ttl_ms))
}

//! A whole server: tickets in a file behind a handle, results that are structs, a form, errors with
//! their causes, and tests. `tickets FILE` serves on standard input and output.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::{fs, io};

use mcplane::{Context, Elicited, Failure, Json, Server, State, resource, tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Something that is broken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
struct Ticket {
    id: u32,
    title: String,
    urgency: Urgency,
    open: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Urgency {
    Low,
    High,
}

/// The handle: what a pool of connections is to a database.
struct Store {
    file: PathBuf,
    tickets: Mutex<BTreeMap<u32, Ticket>>,
}

/// Why the store failed. The cause is in `source()`, and the client is told of it.
#[derive(Debug, thiserror::Error)]
#[error("the tickets cannot be {doing}")]
struct StoreError {
    doing: &'static str,
    source: io::Error,
}

impl Store {
    fn open(file: &Path) -> Result<Self, StoreError> {
        let bad = |source| StoreError { doing: "read", source };
        let tickets = match fs::read(file) {
            Ok(json) => serde_json::from_slice(&json).map_err(|error| bad(error.into()))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(bad(error)),
        };
        Ok(Self { file: file.to_owned(), tickets: Mutex::new(tickets) })
    }

    fn read<T>(&self, look: impl FnOnce(&BTreeMap<u32, Ticket>) -> T) -> T {
        look(&self.tickets.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes the tickets, in the file first: what cannot be kept has not happened.
    fn write<T>(
        &self,
        edit: impl FnOnce(&mut BTreeMap<u32, Ticket>) -> T,
    ) -> Result<T, StoreError> {
        let mut tickets = self.tickets.lock().unwrap_or_else(PoisonError::into_inner);
        let mut edited = tickets.clone();
        let result = edit(&mut edited);
        serde_json::to_vec_pretty(&edited)
            .map_err(io::Error::from)
            .and_then(|json| fs::write(&self.file, json))
            .map_err(|source| StoreError { doing: "written", source })?;
        *tickets = edited;
        Ok(result)
    }
}

/// Opens a ticket.
#[tool(blocking)]
fn open_ticket(
    store: &State<Store>,
    /// what is broken
    #[arg(length(min = 1, max = 200))]
    title: String,
    urgency: Option<Urgency>,
) -> Result<Ticket, StoreError> {
    store.write(|tickets| {
        let id = tickets.keys().next_back().map_or(1, |last| last + 1);
        let ticket = Ticket { id, title, urgency: urgency.unwrap_or(Urgency::Low), open: true };
        tickets.insert(id, ticket.clone());
        ticket
    })
}

/// Lists tickets.
#[tool(read_only)]
fn list_tickets(store: &State<Store>, #[arg(default)] closed: bool) -> Vec<Ticket> {
    store.read(|tickets| tickets.values().filter(|ticket| ticket.open || closed).cloned().collect())
}

/// What the user says when a ticket is closed.
#[derive(Deserialize, JsonSchema)]
struct Confirmation {
    /// close it for good?
    sure: bool,
}

/// Closes a ticket, if the user agrees.
#[tool(destructive)]
async fn close_ticket(context: &Context, store: State<Store>, id: u32) -> Result<Ticket, Failure> {
    let missing = || Failure::not_found(format!("there is no ticket {id}"));
    let title = store.read(|tickets| tickets.get(&id).map(|ticket| ticket.title.clone()));
    let question = format!("Close \"{}\"?", title.ok_or_else(missing)?);
    match context.elicit_form::<Confirmation>(question).await? {
        Elicited::Accepted(Confirmation { sure: true }) => {}
        _ => return Err("the user does not want to close it".into()),
    }
    // The last question is asked: from here on everything happens once. Writing may take a while.
    let written = tokio::task::spawn_blocking(move || {
        store.write(|tickets| {
            tickets.get_mut(&id).map(|ticket| {
                ticket.open = false;
                ticket.clone()
            })
        })
    });
    written.await??.ok_or_else(missing)
}

/// One ticket.
#[resource("tickets:///{id}")]
fn ticket(store: &State<Store>, id: u32) -> Option<Json<Ticket>> {
    store.read(|tickets| tickets.get(&id).cloned()).map(Json)
}

fn server(store: Store) -> Server {
    Server::new("tickets", "1.0.0")
        .state(store)
        .tool(open_ticket)
        .tool(list_tickets)
        .tool(close_ticket)
        .resource_template(ticket)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = std::env::args().nth(1).ok_or("say where to keep them: tickets FILE")?;
    server(Store::open(Path::new(&file))?).serve(mcplane::stdio()).await?;
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]
mod tests {
    use mcplane::Client;
    use mcplane::client::EraChoice;
    use mcplane::proto::types::ElicitResult;
    use mcplane::proto::version::Revision;
    use mcplane::transport::memory;
    use mcplane::types::CallToolResult;
    use serde_json::json;

    use super::*;

    /// A client whose user is `sure`, of a server with a fresh file in a fresh folder.
    async fn connect(name: &str, revision: Revision, sure: bool) -> (Client, PathBuf) {
        let folder =
            std::env::temp_dir().join(format!("tickets-{}-{name}-{revision}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (ours, theirs) = memory::pair();
        let server = server(Store::open(&folder.join("tickets.json")).unwrap());
        tokio::spawn(server.serve(theirs));
        let client = Client::builder("test", "1.0.0")
            .on_elicit_form(move |_| async move { ElicitResult::accept().with("sure", sure) })
            .revision(EraChoice::Only(revision));
        (client.connect(ours).await.unwrap(), folder)
    }

    fn content(result: &CallToolResult) -> Ticket {
        assert!(!result.is_error(), "{result:?}");
        serde_json::from_str(result.structured_content.as_deref().unwrap().get()).unwrap()
    }

    #[tokio::test]
    async fn a_ticket_is_opened_read_and_closed() {
        for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
            let (client, folder) = connect("closed", revision, true).await;
            let asked = json!({"title": "The lift", "urgency": "high"});
            let opened = content(&client.call_tool("open_ticket", &asked).await.unwrap());
            assert_eq!((opened.id, opened.urgency), (1, Urgency::High));
            let read = client.read_resource("tickets:///1").await.unwrap();
            assert!(read.contents[0].as_text().unwrap().contains("The lift"));
            let closed = client.call_tool("close_ticket", &json!({"id": 1})).await.unwrap();
            assert!(!content(&closed).open);
            let kept = Store::open(&folder.join("tickets.json")).unwrap();
            assert_eq!(kept.read(|tickets| tickets.values().filter(|one| one.open).count()), 0);
            fs::remove_dir_all(folder).unwrap();
        }
    }

    #[tokio::test]
    async fn what_goes_wrong_is_told() {
        let (client, folder) = connect("wrong", Revision::V2026_07_28, false).await;
        let text = |result: CallToolResult| {
            assert!(result.is_error(), "{result:?}");
            result.content[0].as_text().unwrap().to_owned()
        };
        let empty = client.call_tool("open_ticket", &json!({"title": ""})).await.unwrap();
        assert!(text(empty).contains("/title"));
        client.call_tool("open_ticket", &json!({"title": "The lift"})).await.unwrap();
        let unsure = client.call_tool("close_ticket", &json!({"id": 1})).await.unwrap();
        assert_eq!(text(unsure), "the user does not want to close it");
        let missing = client.read_resource("tickets:///7").await.unwrap_err();
        assert_eq!(missing.rpc().unwrap().code.0, -32602);
        fs::remove_dir_all(folder).unwrap();
        let lost = client.call_tool("open_ticket", &json!({"title": "The door"})).await.unwrap();
        let why = text(lost);
        assert!(why.starts_with("the tickets cannot be written: No such file"), "{why}");
    }
}

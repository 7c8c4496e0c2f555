//! What the handlers of a server share.

use std::collections::BTreeMap;
use std::sync::Mutex;

use mcplane::proto::types::{CompleteParams, CompleteResult, CompletionReference};
use mcplane::{Context, Failure, NoArguments, Prompt, Server, State, Tool, prompt, resource, tool};
use serde_json::json;

use super::{ERAS, client};

#[derive(Default)]
struct Notes(Mutex<BTreeMap<String, String>>);

struct Author(&'static str);

impl Notes {
    fn get(&self, name: &str) -> Option<String> {
        self.0.lock().unwrap().get(name).cloned()
    }

    fn names(&self) -> Vec<String> {
        self.0.lock().unwrap().keys().cloned().collect()
    }
}

#[tool]
fn write(notes: &State<Notes>, name: String, text: String) {
    notes.0.lock().unwrap().insert(name, text);
}

#[tool(blocking)]
fn sign(notes: State<Notes>, author: &State<Author>, context: &Context) {
    let text = format!("{} {}", author.0, context.revision());
    notes.0.lock().unwrap().insert("signed".into(), text);
}

#[tool]
async fn erase(context: Context, name: &str, notes: &State<Notes>) -> Result<(), Failure> {
    tokio::task::yield_now().await;
    assert!(!context.is_cancelled());
    let missing = || Failure::not_found("no such note");
    notes.0.lock().unwrap().remove(name).map(drop).ok_or_else(missing)
}

#[resource("notes://{name}")]
fn note(name: &str, notes: &State<Notes>) -> Option<String> {
    notes.get(name)
}

#[resource("notes:all")]
async fn all(notes: State<Notes>) -> String {
    notes.names().join(",")
}

#[prompt]
fn extend(notes: &State<Notes>, name: &str) -> Result<String, Failure> {
    notes.get(name).ok_or_else(|| Failure::not_found("no such note"))
}

async fn complete(
    notes: State<Notes>,
    _: Context,
    _: CompleteParams,
) -> Result<CompleteResult, Failure> {
    Ok(CompleteResult::new(notes.names()))
}

fn server() -> Server {
    Server::new("notes", "1")
        .state(Author("me"))
        .tool(write)
        .tool(sign)
        .tool(erase)
        .resource(all)
        .resource_template(note)
        .prompt(extend)
        .completion_with_state(complete)
        .tool(Tool::inline("count", |context: &Context, _: NoArguments| {
            context.state::<Notes>().map(|notes| notes.names().len())
        }))
}

#[tokio::test]
async fn every_kind_of_handler_takes_it() {
    for revision in ERAS {
        let client = client(server().state(Notes::default()), revision).await;
        client.call_tool("write", &json!({"name": "a", "text": "one"})).await.unwrap();
        client.call_tool("sign", &json!({})).await.unwrap();
        let contents = client.read_resource("notes://signed").await.unwrap().contents;
        assert_eq!(contents[0].as_text(), Some(&*format!("me {revision}")));
        let contents = client.read_resource("notes:all").await.unwrap().contents;
        assert_eq!(contents[0].as_text(), Some("a,signed"));
        let filled = client.get_prompt("extend", [("name", "a")]).await.unwrap();
        assert_eq!(filled.messages[0].content.as_text(), Some("one"));
        let params = CompleteParams::new(CompletionReference::prompt("extend"), "name", "");
        assert_eq!(client.complete(&params).await.unwrap().values, ["a", "signed"]);
        let counted = client.call_tool("count", &json!({})).await.unwrap();
        assert_eq!(counted.content[0].as_text(), Some("2"));
        client.call_tool("erase", &json!({"name": "a"})).await.unwrap();
        let gone = client.call_tool("erase", &json!({"name": "a"})).await.unwrap();
        assert_eq!(gone.content[0].as_text(), Some("no such note"));
    }
    let notes = State::new(Notes::default());
    write::call(&notes, "a".into(), "one".into());
    assert_eq!(note::call("a", &notes).as_deref(), Some("one"));
}

#[test]
fn its_absence_is_found_when_the_server_starts() {
    let why = |server: Server| server.start().unwrap_err().to_string();
    let error = why(server());
    assert!(error.contains("tool `write`"), "{error}");
    assert!(error.contains("state::Notes`: hand a value of it to `Server::state`"), "{error}");
    assert!(error.contains("(the server's state: `handlers::state::Author`)"), "{error}");
    let bare = || Server::new("bare", "1");
    assert!(why(bare().prompt(extend)).contains("prompt `extend`"));
    assert!(why(bare().resource(all)).contains("resource `notes:all`"));
    assert!(why(bare().resource_template(note)).contains("resource template `notes://{name}`"));
    assert!(why(bare().completion_with_state(complete)).contains("the completion"));
    let counted = Prompt::inline("x", |_, _| "x").needs_state::<u8>();
    assert!(why(bare().prompt(counted)).contains("type `u8`"));
    assert!(why(bare().state(1_u8).state(2_u8)).contains("two states are of type `u8`"));

    let running = bare().tool(Tool::inline("x", |_, _: NoArguments| "x")).start().unwrap();
    let error = running.add_tool(write).unwrap_err();
    assert!(error.is_misuse() && error.to_string().contains("tool `write`"), "{error}");
}

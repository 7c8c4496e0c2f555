//! Resources, a template, a prompt and completion over one shelf of books.

use std::collections::BTreeMap;

use mcplane::proto::types::{CompleteParams, CompleteResult};
use mcplane::{Context, Failure, Json, Server, State, prompt, resource};

/// Books by their key.
struct Shelf(BTreeMap<&'static str, &'static str>);

/// Every book: its key and its title.
#[resource("books:all")]
fn all(shelf: &State<Shelf>) -> Json<BTreeMap<&'static str, &'static str>> {
    Json(shelf.0.clone())
}

/// The title of one book.
#[resource("books:///{key}", mime_type = "text/plain")]
fn book(shelf: &State<Shelf>, key: &str) -> Option<&'static str> {
    shelf.0.get(key).copied()
}

/// Asks for a review of a book.
#[prompt]
fn review(
    shelf: &State<Shelf>,
    /// the key of the book
    key: &str,
    /// how many sentences
    #[arg(default = 3)]
    sentences: u32,
) -> Result<String, Failure> {
    let missing = || Failure::not_found(format!("there is no book `{key}`"));
    let title = shelf.0.get(key).ok_or_else(missing)?;
    Ok(format!("Review \"{title}\" in {sentences} sentences."))
}

/// The keys that begin like what the user has typed.
async fn keys(
    shelf: State<Shelf>,
    _: Context,
    params: CompleteParams,
) -> Result<CompleteResult, Failure> {
    let fits = |key: &&&str| key.starts_with(&params.argument.value);
    Ok(CompleteResult::new(shelf.0.keys().filter(fits).copied()))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> mcplane::Result<()> {
    let books = [("emma", "Emma"), ("erewhon", "Erewhon"), ("ulysses", "Ulysses")];
    Server::new("library", "1.0.0")
        .state(Shelf(books.into()))
        .resource(all)
        .resource_template(book)
        .prompt(review)
        .completion_with_state(keys)
        .serve(mcplane::stdio())
        .await
}

//! What the handlers of a server share: a database, a client, a cache.

use std::any::{Any, TypeId, type_name};
use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;

use mcplane_proto::types::{CompleteParams, CompleteResult};

use super::Server;
use super::context::Context;
use super::failure::Failure;
use crate::error::{Error, Result};

/// What the handlers of a server share, as a parameter of one. Cloning it clones a pointer.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// use mcplane::{Server, State, tool};
///
/// #[derive(Default)]
/// struct Visits(AtomicU64);
///
/// /// Counts its own calls.
/// #[tool]
/// fn visit(visits: &State<Visits>) -> u64 {
///     visits.0.fetch_add(1, Ordering::Relaxed) + 1
/// }
///
/// let server = Server::new("demo", "1.0.0").state(Visits::default()).tool(visit);
/// ```
///
/// A server has one value of a type, and any number of types. The server checks when it starts that
/// the state of each handler exists.
pub struct State<T>(Arc<T>);

impl<T> State<T> {
    /// State to call a handler with, without a server.
    pub fn new(value: T) -> Self {
        Self(Arc::new(value))
    }
}

impl<T> Clone for State<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Deref for State<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: fmt::Debug> fmt::Debug for State<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("State").field(&self.0).finish()
    }
}

impl Server {
    /// Shares a value with every handler, which takes it as a parameter of type [`State`]:
    /// `db: &State<Db>`. There is one value of each type; the order of the calls does not matter.
    #[must_use]
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        if let Err(error) = self.states.insert(value) {
            self.note(error);
        }
        self
    }

    /// Answers `completion/complete` with the server's state of type `T`.
    #[must_use]
    pub fn completion_with_state<T, F, Fut, E>(mut self, handler: F) -> Self
    where
        T: Send + Sync + 'static,
        F: Fn(State<T>, Context, CompleteParams) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<CompleteResult, E>> + Send + 'static,
        E: Into<Failure>,
    {
        self.need("the completion".to_owned(), vec![Need::of::<T>()]);
        let handler = Arc::new(handler);
        self.completion(move |context: Context, params| {
            let handler = Arc::clone(&handler);
            async move {
                let state = context.state::<T>()?.clone();
                handler(state, context, params).await.map_err(Into::<Failure>::into)
            }
        })
    }

    /// Notes what `who` needs, to be looked for when everything is there.
    pub(super) fn need(&mut self, who: String, needs: Vec<Need>) {
        if !needs.is_empty() {
            self.needs.push((who, needs));
        }
    }
}

/// The state of a server, one value of a type. There are few, so that a look at each is quicker
/// than a hash; and none comes or goes while the server runs, so that there is no lock.
#[derive(Default)]
pub(crate) struct States(Vec<(Need, Box<dyn Any + Send + Sync>)>);

/// A type of state, as a handler needs it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Need {
    id: TypeId,
    name: &'static str,
}

impl Need {
    pub(crate) fn of<T: 'static>() -> Self {
        Self { id: TypeId::of::<T>(), name: type_name::<T>() }
    }
}

impl States {
    /// Puts a value in.
    ///
    /// # Errors
    /// If there is one of its type.
    pub(crate) fn insert<T: Send + Sync + 'static>(&mut self, value: T) -> Result<()> {
        let need = Need::of::<T>();
        if self.0.iter().any(|(known, _)| known.id == need.id) {
            let why = "a server has one state of a type: wrap one of them in a struct of its own";
            return Err(Error::misuse(format!("two states are of type `{}`: {why}", need.name)));
        }
        self.0.push((need, Box::new(State::new(value))));
        Ok(())
    }

    /// The value of a type.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn get<T: Send + Sync + 'static>(&self) -> Result<&State<T>> {
        let found = self.0.iter().find(|(known, _)| known.id == TypeId::of::<T>());
        let state = found.and_then(|(_, state)| state.downcast_ref());
        state.ok_or_else(|| self.missing(Need::of::<T>()))
    }

    /// Holds the needs of `who`, such as "tool `add`", against what is there.
    ///
    /// # Errors
    /// The first one that is not there.
    pub(crate) fn check(&self, who: &str, needs: &[Need]) -> Result<()> {
        let there = |need: &Need| self.0.iter().any(|(known, _)| known.id == need.id);
        match needs.iter().find(|need| !there(need)) {
            None => Ok(()),
            Some(need) => Err(Error::misuse(format!("{who}: {}", self.missing(*need)))),
        }
    }

    fn missing(&self, need: Need) -> Error {
        let known: Vec<_> = self.0.iter().map(|(known, _)| format!("`{}`", known.name)).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        let name = need.name;
        Error::misuse(format!(
            "there is no state of type `{name}`: hand a value of it to `Server::state` (the \
             server's state: {known})"
        ))
    }
}

impl fmt::Debug for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(known, _)| known.name)).finish()
    }
}

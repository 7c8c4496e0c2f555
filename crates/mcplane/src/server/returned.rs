//! What `#[tool]` makes of a return type: what is a result already stays one, and what is only
//! `Serialize` and `JsonSchema` is wrapped in [`Json`]. No one trait can say so, since text is both.
//! The expansion knows the type and asks `(&&&Returned::<T>::new()).kind()`, and methods are looked
//! up with the most references first: the traits are tried in the order of this file.

use std::marker::PhantomData;

use schemars::JsonSchema;
use serde::Serialize;

use super::failure::Failure;
use super::outcome::{IntoToolResult, Json};

/// A return type.
#[derive(Debug)]
pub struct Returned<T>(PhantomData<fn() -> T>);

impl<T> Returned<T> {
    /// Stands for `T`.
    #[allow(clippy::new_without_default, reason = "only expansions make one")]
    #[must_use]
    pub const fn new() -> Self {
        Self(PhantomData)
    }

    /// What fits nothing: the bound of the tool's constructor says why.
    #[must_use]
    pub const fn kind(&self) -> Itself {
        Itself
    }
}

/// For what is a result already.
pub trait ViaItself {
    /// How it is wrapped.
    fn kind(&self) -> Itself {
        Itself
    }
}

impl<T: IntoToolResult> ViaItself for &&&Returned<T> {}

/// For structured content, or an error.
pub trait ViaOk {
    /// How it is wrapped.
    fn kind(&self) -> StructuredOk {
        StructuredOk
    }
}

impl<T: Serialize + JsonSchema, E: Into<Failure>> ViaOk for &&Returned<Result<T, E>> {}

/// For structured content.
pub trait ViaJson {
    /// How it is wrapped.
    fn kind(&self) -> Structured {
        Structured
    }
}

impl<T: Serialize + JsonSchema> ViaJson for &Returned<T> {}

/// Wraps nothing.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Itself;

impl Itself {
    /// The value itself.
    pub fn wrap<T>(self, value: T) -> T {
        value
    }
}

/// Wraps a value.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Structured;

impl Structured {
    /// The value as structured content.
    pub const fn wrap<T>(self, value: T) -> Json<T> {
        Json(value)
    }
}

/// Wraps what an `Ok` holds.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct StructuredOk;

impl StructuredOk {
    /// The value as structured content, or the error.
    ///
    /// # Errors
    /// The one that is given.
    pub fn wrap<T, E>(self, value: Result<T, E>) -> Result<Json<T>, E> {
        value.map(Json)
    }
}

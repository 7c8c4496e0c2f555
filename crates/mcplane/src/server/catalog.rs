//! What a server offers: tables by name, in the order of registration.

use std::collections::HashMap;
use std::sync::Arc;

use mcplane_proto::error::ErrorObject;
use mcplane_proto::types::{CompleteParams, CompleteResult};
use mcplane_proto::uri_template::UriTemplate;

use super::failure::Failure;
use super::handler::Handler;
use super::prompt::Prompt;
use super::resource::{Resource, ResourceTemplate};
use super::tool::CompiledTool;

/// A snapshot of what is offered. Connections share it; a change makes a new one.
#[derive(Clone, Default)]
pub(crate) struct Catalog {
    pub(crate) tools: Table<CompiledTool>,
    pub(crate) resources: Table<Arc<Resource>>,
    pub(crate) templates: Table<Arc<(ResourceTemplate, UriTemplate)>>,
    pub(crate) prompts: Table<Arc<Prompt>>,
    pub(crate) completion: Option<Handler<CompleteParams, Result<CompleteResult, Failure>>>,
}

/// Values by name, in the order in which they came: lists should be deterministic (2026-07-28
/// tools §Listing), so that clients and models can cache them.
#[derive(Clone)]
pub(crate) struct Table<T> {
    rows: Vec<(Box<str>, T)>,
    index: HashMap<Box<str>, usize>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { rows: Vec::new(), index: HashMap::new() }
    }
}

impl<T> Table<T> {
    /// Puts a value in. One of the same name gives way and is returned.
    pub(crate) fn insert(&mut self, name: &str, value: T) -> Option<T> {
        match self.index.get(name).and_then(|&at| self.rows.get_mut(at)) {
            Some((_, row)) => Some(std::mem::replace(row, value)),
            None => {
                self.index.insert(name.into(), self.rows.len());
                self.rows.push((name.into(), value));
                None
            }
        }
    }

    pub(crate) fn remove(&mut self, name: &str) -> Option<T> {
        let at = self.index.remove(name)?;
        self.index.values_mut().filter(|row| **row > at).for_each(|row| *row -= 1);
        Some(self.rows.remove(at).1)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&T> {
        self.rows.get(*self.index.get(name)?).map(|(_, value)| value)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.rows.iter().map(|(_, value)| value)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// One page of at most `size` values, and the cursor of the next. A cursor names the row that
    /// comes first, so that a page survives changes before it.
    ///
    /// # Errors
    /// -32602 for a cursor that is not ours, or whose row is gone.
    pub(crate) fn page(
        &self,
        cursor: Option<&str>,
        size: usize,
    ) -> Result<(Vec<&T>, Option<String>), ErrorObject> {
        let first = match cursor {
            None => 0,
            Some(name) => *self.index.get(name).ok_or_else(|| {
                ErrorObject::invalid_params("unknown cursor: list again from the start")
            })?,
        };
        let rows = self.rows.iter().skip(first).take(size).map(|(_, value)| value).collect();
        let next = self.rows.get(first.saturating_add(size)).map(|(name, _)| name.to_string());
        Ok((rows, next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_cover_the_table_in_order() {
        let mut table = Table::default();
        for (name, value) in [("b", 1), ("a", 2), ("c", 3)] {
            assert!(table.insert(name, value).is_none());
        }
        let (rows, next) = table.page(None, 2).unwrap();
        assert_eq!((rows, next.as_deref()), (vec![&1, &2], Some("c")));
        let (rows, next) = table.page(Some("c"), 2).unwrap();
        assert_eq!((rows, next), (vec![&3], None));
        assert!(table.page(Some("x"), 2).is_err());
        assert_eq!(table.remove("b"), Some(1));
        assert_eq!((table.get("a"), table.get("c"), table.get("b")), (Some(&2), Some(&3), None));
        assert_eq!(table.insert("a", 9), Some(2));
        assert_eq!(table.iter().copied().collect::<Vec<_>>(), [9, 3]);
    }
}

//! Lists: one page, or all of them.

use std::collections::HashSet;

use mcplane_proto::types::{
    ListPromptsParams, ListPromptsResult, ListResourceTemplatesParams, ListResourceTemplatesResult,
    ListResourcesParams, ListResourcesResult, ListToolsParams, ListToolsResult, Prompt, Request,
    Resource, ResourceTemplate, Tool,
};

use super::Client;
use crate::error::{Error, Result};

/// The most pages of one list. A server with more is assumed to be in a loop.
pub const PAGES_MAX: usize = 1000;

/// A list that comes in pages.
trait Paged: Request {
    type Item;

    fn page(cursor: Option<String>) -> Self;
    fn items(page: Self::Result) -> (Vec<Self::Item>, Option<String>);
}

macro_rules! lists {
    ($($params:ident, $result:ident, $field:ident: $item:ident, $all:ident, $page:ident, $what:literal;)*) => {
        $(impl Paged for $params {
            type Item = $item;

            fn page(cursor: Option<String>) -> Self {
                Self { cursor, ..Self::default() }
            }

            fn items(page: $result) -> (Vec<$item>, Option<String>) {
                (page.$field, page.next_cursor)
            }
        })*

        impl Client {
            $(
                #[doc = concat!("All ", $what, ", page after page. At most [`PAGES_MAX`] pages.")]
                ///
                /// Cancel safe: the page in flight is cancelled.
                ///
                /// # Errors
                /// As [`Client::request_raw`]; also a cursor that comes twice.
                pub async fn $all(&self) -> Result<Vec<$item>> {
                    self.all::<$params>().await
                }

                #[doc = concat!("One page of ", $what, ": the first one, or where a `nextCursor` points.")]
                ///
                /// Cancel safe: the request is cancelled.
                ///
                /// # Errors
                /// As [`Client::request_raw`].
                pub async fn $page(&self, cursor: Option<&str>) -> Result<$result> {
                    self.fetch(&$params::page(cursor.map(Into::into))).await
                }
            )*
        }
    };
}

lists! {
    ListToolsParams, ListToolsResult, tools: Tool,
        list_tools, list_tools_page, "tools (`tools/list`)";
    ListResourcesParams, ListResourcesResult, resources: Resource,
        list_resources, list_resources_page, "resources (`resources/list`)";
    ListResourceTemplatesParams, ListResourceTemplatesResult, resource_templates: ResourceTemplate,
        list_resource_templates, list_resource_templates_page,
        "resource templates (`resources/templates/list`)";
    ListPromptsParams, ListPromptsResult, prompts: Prompt,
        list_prompts, list_prompts_page, "prompts (`prompts/list`)";
}

impl Client {
    async fn all<P: Paged>(&self) -> Result<Vec<P::Item>> {
        let (mut all, mut seen, mut cursor) = (Vec::new(), HashSet::new(), None);
        for _ in 0..PAGES_MAX {
            let (items, next) = P::items(self.fetch(&P::page(cursor)).await?);
            all.extend(items);
            // Only its absence ends the list; the empty string is a cursor like any other.
            let Some(next) = next else { return Ok(all) };
            if !seen.insert(next.clone()) {
                let why = format!("`{}` goes in a circle: cursor {next:?} came twice", P::METHOD);
                return Err(Error::malformed(why));
            }
            cursor = Some(next);
        }
        Err(Error::malformed(format!("`{}` has more than {PAGES_MAX} pages", P::METHOD)))
    }
}

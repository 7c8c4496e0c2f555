//! `#[prompt]`.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::Path;
use syn::meta::parser;
use syn::parse::Parser;

use crate::function::Function;
use crate::options::{Options, unknown};
use crate::parameter::{Argument, doc_text};
use crate::text;

/// The prompt that `function` becomes.
pub(crate) fn make(attribute: TokenStream, function: &Function) -> syn::Result<TokenStream> {
    let mut options = Options::default();
    let accept = parser(|meta| {
        if options.accept(&meta)? {
            return Ok(());
        }
        Err(unknown(&meta, "name, title, description and crate"))
    });
    accept.parse2(attribute)?;
    let root = options.root();
    let name = function.name(&options);
    let mut listed = Vec::new();
    for argument in function.arguments() {
        argument.options.only(&["rename", "title", "default"], "a prompt's argument is text")?;
        listed.push(list(argument, &root)?);
    }
    let input = quote!(#root::PromptArguments);
    let handler = text::handler(function, &root, &input, "get", "argument");
    let setters = options.setters(function.docs.as_deref());
    let needs = function.needs();
    let made = function.constructor(&root, "Prompt", None, &quote!(#name, #handler))?;
    let make = quote!(#made #setters #(.argument(#listed))* #needs);
    Ok(function.declare(&root, "Prompt", &make))
}

/// The argument as it is listed.
fn list(argument: &Argument, root: &Path) -> syn::Result<TokenStream> {
    let name = argument.name();
    let kind = format_ident!("{}", if argument.is_required() { "required" } else { "new" });
    let title = argument.options.title.iter();
    let description = doc_text(&argument.docs)?.into_iter();
    Ok(quote! {
        #root::types::PromptArgument::#kind(#name)
            #(.title(#title))* #(.description(#description))*
    })
}

//! Arguments that travel as text: those of prompts, and the variables of URI templates.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Ident, Path};

use crate::function::Function;
use crate::parameter::{Argument, option_of};

/// The handler of a function whose arguments are read from an `input` by its method `find`. `what`
/// they are is for the client to read when one does not parse.
pub(crate) fn handler(
    function: &Function,
    root: &Path,
    input: &TokenStream,
    find: &str,
    what: &str,
) -> TokenStream {
    let find = format_ident!("{find}");
    let given = Ident::new("given", Span::mixed_site());
    let statements = function.arguments().map(|argument| {
        let name = argument.name();
        read(argument, &quote!(#given.#find(#name)), root, &format!("{what} `{name}`"))
    });
    let prepare: TokenStream = statements.collect();
    let pattern = if prepare.is_empty() { quote!(_) } else { quote!(#given) };
    function.handler(root, &quote!(#pattern: #input), &prepare, holder, true, |call| call)
}

/// The statement that reads an argument from `text`, an `Option<&str>`.
fn read(argument: &Argument, text: &TokenStream, root: &Path, what: &str) -> TokenStream {
    let (holder, held) = (holder(argument), &argument.held);
    let some = quote!(::core::option::Option::Some);
    let none = quote!(::core::option::Option::None);
    let inner = option_of(held);
    let parsed = inner.unwrap_or(held);
    let invalid = quote!(#root::proto::error::ErrorObject::invalid_params);
    let bad = format!("{what}: {{error}}");
    let span = Span::call_site().located_at(parsed.span());
    let value = quote_spanned! {span=>
        <#parsed as ::core::str::FromStr>::from_str(text)
            .map_err(|error| #root::Failure::rpc(#invalid(::std::format!(#bad))))?
    };
    let present = if inner.is_some() { quote!(#some(#value)) } else { value };
    let missing = format!("{what} is missing");
    let absent = match (argument.default(), inner) {
        (Some(default), _) => default,
        (None, Some(_)) => none.clone(),
        (None, None) => quote! {
            return ::core::result::Result::Err(#root::Failure::rpc(#invalid(#missing)))
        },
    };
    quote!(let #holder: #held = match #text { #some(text) => #present, #none => #absent };)
}

/// The variable that holds the value of an argument; no name of the user's can clash with it.
fn holder(argument: &Argument) -> TokenStream {
    let mut ident = argument.ident.clone();
    ident.set_span(Span::mixed_site());
    quote!(#ident)
}

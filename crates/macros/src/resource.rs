//! `#[resource]`.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::meta::{ParseNestedMeta, parser};
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{Expr, LitStr, Token};

use crate::function::Function;
use crate::options::{Options, flag, once, unknown, value};
use crate::parameter::option_of;
use crate::text;

/// The resource, or the template, that `function` becomes.
pub(crate) fn make(attribute: TokenStream, function: &Function) -> syn::Result<TokenStream> {
    let ResourceOptions { uri, common, blocking, mime_type } = syn::parse2(attribute)?;
    let variables = variables(&uri)?;
    check(function, &uri, &variables)?;
    let product = if variables.is_empty() { "Resource" } else { "ResourceTemplate" };
    let root = common.root();
    let name = function.name(&common);
    let input = quote!(#root::ResourceRequest);
    let handler = text::handler(function, &root, &input, "variable", "variable");
    let setters = common.setters(function.docs.as_deref());
    let mime_type = mime_type.iter();
    let needs = function.needs();
    let made = function.constructor(&root, product, blocking, &quote!(#uri, #name, #handler))?;
    let make = quote!(#made #setters #(.mime_type(#mime_type))* #needs);
    Ok(function.declare(&root, product, &make))
}

/// Holds the parameters against the variables: each has its other.
fn check(function: &Function, uri: &LitStr, variables: &[String]) -> syn::Result<()> {
    for argument in function.arguments() {
        argument.options.only(&["rename"], "a variable of a URI is text, and always there")?;
        let name = argument.name();
        if !variables.contains(&name) {
            let why = format!("the URI has no variable `{{{name}}}`: {}", listed(variables));
            return Err(syn::Error::new(argument.ident.span(), why));
        }
        if option_of(&argument.held).is_some() {
            let why = "a variable is always there: drop the `Option`";
            return Err(syn::Error::new(argument.held.span(), why));
        }
    }
    let taken: Vec<_> = function.arguments().map(|argument| argument.name()).collect();
    match variables.iter().find(|variable| !taken.contains(variable)) {
        None => Ok(()),
        Some(variable) => {
            let why = format!("no parameter takes `{{{variable}}}`: add `{variable}: String`");
            Err(syn::Error::new(uri.span(), why))
        }
    }
}

/// The names of a template's variables (RFC 6570 level 1, which is what the server matches).
fn variables(uri: &LitStr) -> syn::Result<Vec<String>> {
    let bad = |why: &str| syn::Error::new(uri.span(), why);
    let text = uri.value();
    if text.is_empty() {
        return Err(bad("a URI cannot be empty"));
    }
    let mut names = Vec::new();
    let mut rest = text.as_str();
    while let Some((_, tail)) = rest.split_once('{') {
        let (name, tail) = tail.split_once('}').ok_or_else(|| bad("a `{` is not closed"))?;
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            let why = format!("`{{{name}}}`: a variable is letters, digits and `_`");
            return Err(bad(&why));
        }
        if tail.starts_with('{') {
            return Err(bad("two variables need text between them"));
        }
        if names.iter().any(|known| known == name) {
            return Err(bad(&format!("`{{{name}}}` stands there twice")));
        }
        names.push(name.to_owned());
        rest = tail;
    }
    Ok(names)
}

fn listed(variables: &[String]) -> String {
    if variables.is_empty() {
        return "it has none".to_owned();
    }
    let quoted: Vec<_> = variables.iter().map(|variable| format!("`{{{variable}}}`")).collect();
    format!("it has {}", quoted.join(", "))
}

struct ResourceOptions {
    uri: LitStr,
    common: Options,
    blocking: Option<Span>,
    mime_type: Option<Expr>,
}

impl ResourceOptions {
    fn accept(&mut self, meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
        if self.common.accept(meta)? {
            Ok(())
        } else if meta.path.is_ident("mime_type") {
            once(&mut self.mime_type, meta, value(meta)?)
        } else if meta.path.is_ident("blocking") {
            let span = meta.path.span();
            if flag(meta)? { once(&mut self.blocking, meta, span) } else { Ok(()) }
        } else {
            Err(unknown(meta, "name, title, description, mime_type, blocking and crate"))
        }
    }
}

impl Parse for ResourceOptions {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let uri = input.parse().map_err(|error| {
            let why = "a resource begins with its URI: `#[resource(\"file:///{name}\")]`";
            syn::Error::new(error.span(), why)
        })?;
        let mut options = Self { uri, common: Options::default(), blocking: None, mime_type: None };
        if !input.is_empty() {
            input.parse::<Token![,]>()?;
            let rest: TokenStream = input.parse()?;
            let accept = parser(|meta| options.accept(&meta));
            syn::parse::Parser::parse2(accept, rest)?;
        }
        Ok(options)
    }
}

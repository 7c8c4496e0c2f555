//! `#[tool]`.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote};
use syn::ext::IdentExt;
use syn::meta::{ParseNestedMeta, parser};
use syn::parse::Parser;
use syn::spanned::Spanned;
use syn::{Ident, Path};

use crate::function::Function;
use crate::options::{Options, flag, once, unknown};
use crate::parameter::{Argument, option_of};

/// The tool that `function` becomes.
pub(crate) fn make(attribute: TokenStream, function: &Function) -> syn::Result<TokenStream> {
    let mut options = ToolOptions::default();
    parser(|meta| options.accept(&meta)).parse2(attribute)?;
    let root = options.common.root();
    let name = function.name(&options.common);
    let declared = declare_arguments(function, &root);
    let arguments = Ident::new("arguments", Span::mixed_site());
    let holder = if function.arguments().next().is_some() { quote!(#arguments) } else { quote!(_) };
    let place = |argument: &Argument| {
        let field = &argument.ident;
        quote!(#arguments.#field)
    };
    let returned = function.result();
    let wrap = |call| match &returned {
        Some(ty) => quote!((&&&&#root::__private::Returned::<#ty>::new()).kind().wrap(#call)),
        None => call,
    };
    let input = quote!(#holder: __Arguments);
    let handler = function.handler(&root, &input, &TokenStream::new(), place, false, wrap);
    let setters = options.common.setters(function.docs.as_deref());
    let annotations = options.annotations(&root);
    let needs = function.needs();
    let made = function.constructor(&root, "Tool", options.blocking, &quote!(#name, #handler))?;
    let make = quote! {
        #declared
        #[allow(unused_imports)]
        use #root::__private::returned::{ViaItself as _, ViaJson as _, ViaOk as _};
        #made #setters #annotations #needs
    };
    Ok(function.declare(&root, "Tool", &make))
}

/// The struct of the arguments, with the functions that make its defaults.
fn declare_arguments(function: &Function, root: &Path) -> TokenStream {
    let private = format!("{}::__private", quote!(#root)).replace(' ', "");
    let field = |argument| field(argument, &private);
    let (fields, defaults): (Vec<_>, Vec<_>) = function.arguments().map(field).unzip();
    let serde = format!("{private}::serde");
    let schemars = format!("{private}::schemars");
    quote! {
        #(#defaults)*
        #[derive(#root::__private::serde::Deserialize, #root::__private::schemars::JsonSchema)]
        #[serde(crate = #serde)]
        #[schemars(crate = #schemars)]
        #[allow(non_snake_case)]
        struct __Arguments { #(#fields,)* }
    }
}

/// The field for an argument, and the function that makes its default. What it names is in
/// `private`.
fn field(argument: &Argument, private: &str) -> (TokenStream, Option<TokenStream>) {
    let Argument { ident, held, docs, options, .. } = argument;
    let rename = options.rename.iter();
    let title = options.title.iter();
    let schema = &options.schema;
    let flatten = options.flatten.iter();
    // Says which member is wrong; an option of what is flattened is not a type that serde can wrap.
    let told = flatten.clone().filter(|_| option_of(&argument.held).is_none());
    let told = told.map(|_| format!("{private}::flattened"));
    let (default, function) = match (&options.default, argument.default()) {
        (Some(Some(_)), Some(value)) => {
            let make = format_ident!("default_{}", ident.unraw());
            let path = make.to_string();
            let function = quote!(#[allow(non_snake_case)] fn #make() -> #held { #value });
            (Some(quote!(#[serde(default = #path)])), Some(function))
        }
        (Some(None), _) => (Some(quote!(#[serde(default)])), None),
        _ => (None, None),
    };
    let field = quote! {
        #(#docs)*
        #(#[serde(rename = #rename)])*
        #(#[serde(#flatten)])*
        #(#[serde(deserialize_with = #told)])*
        #default
        #(#[schemars(title = #title)])*
        #(#[schemars(#schema)])*
        #ident: #held
    };
    (field, function)
}

const KNOWN: &str = "name, title, description, blocking, read_only, destructive, idempotent, \
                     open_world and crate";

#[derive(Default)]
struct ToolOptions {
    common: Options,
    blocking: Option<Span>,
    read_only: Option<bool>,
    destructive: Option<bool>,
    idempotent: Option<bool>,
    open_world: Option<bool>,
}

impl ToolOptions {
    fn accept(&mut self, meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
        if self.common.accept(meta)? {
            return Ok(());
        }
        let hint = match meta.path.to_token_stream().to_string().as_str() {
            "blocking" => {
                let span = meta.path.span();
                return if flag(meta)? { once(&mut self.blocking, meta, span) } else { Ok(()) };
            }
            "read_only" => &mut self.read_only,
            "destructive" => &mut self.destructive,
            "idempotent" => &mut self.idempotent,
            "open_world" => &mut self.open_world,
            _ => return Err(unknown(meta, KNOWN)),
        };
        once(hint, meta, flag(meta)?)
    }

    /// The call that hands the hints to the builder, if there are any.
    fn annotations(&self, root: &Path) -> Option<TokenStream> {
        let hints = [
            ("read_only_hint", self.read_only),
            ("destructive_hint", self.destructive),
            ("idempotent_hint", self.idempotent),
            ("open_world_hint", self.open_world),
        ];
        let said = hints.into_iter().filter_map(|(setter, hint)| {
            let (setter, hint) = (format_ident!("{setter}"), hint?);
            Some(quote!(.#setter(#hint)))
        });
        let said: Vec<_> = said.collect();
        let annotations = quote!(#root::types::ToolAnnotations::new() #(#said)*);
        (!said.is_empty()).then(|| quote!(.annotations(#annotations)))
    }
}

//! What stands in the parentheses of an attribute.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::meta::ParseNestedMeta;
use syn::parse::Parse;
use syn::{Expr, LitBool, LitStr, Path, Token, parse_quote};

/// What every part of a server can say of itself.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) name: Option<LitStr>,
    pub(crate) title: Option<Expr>,
    pub(crate) description: Option<Expr>,
    root: Option<Path>,
}

impl Options {
    /// Takes `meta` in, or says that it is nothing of these.
    pub(crate) fn accept(&mut self, meta: &ParseNestedMeta<'_>) -> syn::Result<bool> {
        if meta.path.is_ident("name") {
            let name: LitStr = value(meta)?;
            if name.value().is_empty() {
                return Err(syn::Error::new(name.span(), "a name cannot be empty"));
            }
            once(&mut self.name, meta, name)?;
        } else if meta.path.is_ident("title") {
            once(&mut self.title, meta, value(meta)?)?;
        } else if meta.path.is_ident("description") {
            once(&mut self.description, meta, value(meta)?)?;
        } else if meta.path.is_ident("crate") {
            once(&mut self.root, meta, value(meta)?)?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// The path of `mcplane` where the function stands.
    pub(crate) fn root(&self) -> Path {
        self.root.clone().unwrap_or_else(|| parse_quote!(::mcplane))
    }

    /// The calls that hand title and description to a builder. `docs` describe what
    /// `description` does not.
    pub(crate) fn setters(&self, docs: Option<&str>) -> TokenStream {
        let described = self.description.as_ref().map(ToTokens::to_token_stream);
        let description = described.or_else(|| docs.map(ToTokens::to_token_stream)).into_iter();
        let title = self.title.iter();
        quote!(#(.title(#title))* #(.description(#description))*)
    }
}

/// The value of `key = value`.
pub(crate) fn value<T: Parse>(meta: &ParseNestedMeta<'_>) -> syn::Result<T> {
    meta.value()?.parse()
}

/// The value of `key` or `key = true | false`.
pub(crate) fn flag(meta: &ParseNestedMeta<'_>) -> syn::Result<bool> {
    if meta.input.peek(Token![=]) { Ok(value::<LitBool>(meta)?.value) } else { Ok(true) }
}

/// Sets what may be said once.
pub(crate) fn once<T>(
    slot: &mut Option<T>,
    meta: &ParseNestedMeta<'_>,
    value: T,
) -> syn::Result<()> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(meta.error(format!("`{}` is said twice", key(meta)))),
    }
}

/// The error for what nobody knows. `known` lists what is known, for people.
pub(crate) fn unknown(meta: &ParseNestedMeta<'_>, known: &str) -> syn::Error {
    meta.error(format!("unknown option `{}`: there are {known}", key(meta)))
}

fn key(meta: &ParseNestedMeta<'_>) -> String {
    meta.path.to_token_stream().to_string()
}

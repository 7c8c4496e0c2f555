//! One parameter of a function.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::meta::ParseNestedMeta;
use syn::spanned::Spanned;
use syn::{
    Attribute, Expr, ExprLit, FnArg, GenericArgument, Ident, Lit, LitStr, Meta, Pat, PatType, Path,
    PathArguments, Token, Type, TypeReference, parse_quote_spanned,
};

use crate::options::{flag, once, unknown, value};

/// What a parameter gets.
pub(crate) enum Parameter {
    /// The request.
    Context { owned: bool },
    /// What the calls of a server share: a `State` of this type.
    State { owned: bool, shared: Box<Type> },
    /// An argument of the call.
    Argument(Box<Argument>),
}

/// An argument: a value that the call carries under a name.
pub(crate) struct Argument {
    pub(crate) ident: Ident,
    /// The type that holds the value, which the parameter may borrow from.
    pub(crate) held: Type,
    /// The doc comment.
    pub(crate) docs: Vec<Attribute>,
    pub(crate) options: ArgumentOptions,
    lend: Lend,
}

/// How the value gets from its holder to the parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Lend {
    Move,
    Borrow,
    AsDeref,
}

/// What stands in `#[arg(…)]`.
#[derive(Default)]
pub(crate) struct ArgumentOptions {
    pub(crate) rename: Option<LitStr>,
    pub(crate) title: Option<Expr>,
    /// `default` alone is `Some(None)`.
    pub(crate) default: Option<Option<Expr>>,
    pub(crate) flatten: Option<Path>,
    /// What goes to the schema as it stands.
    pub(crate) schema: Vec<TokenStream>,
    /// The keys of all of these.
    keys: Vec<Path>,
}

impl Parameter {
    /// Reads a parameter, and takes from it what the compiler would not accept there.
    pub(crate) fn take(input: &mut FnArg) -> syn::Result<Self> {
        let typed = match input {
            FnArg::Typed(typed) => typed,
            FnArg::Receiver(receiver) => {
                let why = "a method cannot be served: make it a free function that takes what \
                           calls share as `state: &State<App>`, and give that to `Server::state`";
                return Err(syn::Error::new(receiver.self_token.span, why));
            }
        };
        let attributes = std::mem::take(&mut typed.attrs);
        let mut docs = Vec::new();
        let mut options = None;
        for attribute in attributes {
            if attribute.path().is_ident("doc") {
                docs.push(attribute);
            } else if attribute.path().is_ident("arg") {
                if options.is_some() {
                    return Err(syn::Error::new(attribute.span(), "one `#[arg(…)]` is enough"));
                }
                options = Some((attribute.span(), ArgumentOptions::parse(&attribute)?));
            } else {
                typed.attrs.push(attribute);
            }
        }
        let special = match (is_context(&typed.ty), state_of(&typed.ty)) {
            (Some(owned), _) => Some((Self::Context { owned }, "the context is the request")),
            (_, Some((owned, shared))) => {
                let shared = Box::new(shared.clone());
                Some((Self::State { owned, shared }, "the state is the server's"))
            }
            _ => None,
        };
        match (special, &options) {
            (Some((_, what)), Some((span, _))) => {
                return Err(syn::Error::new(*span, format!("{what}, not an argument")));
            }
            (Some((parameter, _)), None) => return Ok(parameter),
            (None, _) => {}
        }
        let options = options.map(|(_, options)| options).unwrap_or_default();
        let ident = name(typed)?;
        let (held, lend) = holder(&typed.ty)?;
        Ok(Self::Argument(Box::new(Argument { ident, held, docs, options, lend })))
    }
}

impl Argument {
    /// The name on the wire.
    pub(crate) fn name(&self) -> String {
        self.options.rename.as_ref().map_or_else(|| self.ident.unraw().to_string(), LitStr::value)
    }

    /// The expression for the parameter, where `holder` is a place of the type `held`.
    pub(crate) fn lend(&self, holder: &TokenStream) -> TokenStream {
        match self.lend {
            Lend::Move => holder.clone(),
            Lend::Borrow => quote!(&#holder),
            Lend::AsDeref => quote!(#holder.as_deref()),
        }
    }

    /// Whether a call must carry it.
    pub(crate) fn is_required(&self) -> bool {
        self.options.default.is_none() && option_of(&self.held).is_none()
    }

    /// The value of `default`. Text is converted, so that it does for a `String`.
    pub(crate) fn default(&self) -> Option<TokenStream> {
        match self.options.default.as_ref()? {
            None => Some(quote!(::core::default::Default::default())),
            Some(Expr::Lit(ExprLit { lit: Lit::Str(text), .. })) => {
                Some(quote!(::core::convert::Into::into(#text)))
            }
            Some(value) => Some(value.to_token_stream()),
        }
    }
}

impl ArgumentOptions {
    fn parse(attribute: &Attribute) -> syn::Result<Self> {
        let mut options = Self::default();
        attribute.parse_nested_meta(|meta| options.accept(&meta))?;
        Ok(options)
    }

    /// Refuses every option but the `known`, and says `why`.
    pub(crate) fn only(&self, known: &[&str], why: &str) -> syn::Result<()> {
        match self.keys.iter().find(|key| !known.iter().any(|known| key.is_ident(known))) {
            None => Ok(()),
            Some(key) => {
                let why = format!("{why}: it can have {}", known.join(", "));
                Err(syn::Error::new(key.span(), why))
            }
        }
    }

    fn accept(&mut self, meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
        let path = &meta.path;
        self.keys.push(path.clone());
        if path.is_ident("rename") {
            once(&mut self.rename, meta, value(meta)?)
        } else if path.is_ident("title") {
            once(&mut self.title, meta, value(meta)?)
        } else if path.is_ident("default") {
            let given = if meta.input.peek(Token![=]) { Some(value(meta)?) } else { None };
            once(&mut self.default, meta, given)
        } else if path.is_ident("flatten") {
            if flag(meta)? { once(&mut self.flatten, meta, path.clone()) } else { Ok(()) }
        } else if ["example", "range", "length", "regex"].iter().any(|key| path.is_ident(key)) {
            let rest = if meta.input.peek(Token![=]) {
                let example: Expr = value(meta)?;
                quote!(= #example)
            } else {
                let content;
                syn::parenthesized!(content in meta.input);
                let limits: TokenStream = content.parse()?;
                quote!((#limits))
            };
            self.schema.push(quote!(#path #rest));
            Ok(())
        } else {
            Err(unknown(meta, "rename, title, default, flatten, example, range, length and regex"))
        }
    }
}

/// The text of a doc comment, without the space that begins its lines.
pub(crate) fn doc_text(attributes: &[Attribute]) -> syn::Result<Option<String>> {
    let mut text = String::new();
    for attribute in attributes {
        let Meta::NameValue(pair) = &attribute.meta else { continue };
        let Expr::Lit(ExprLit { lit: Lit::Str(line), .. }) = &pair.value else {
            let why = "this text is not known here: say `description = …` instead";
            return Err(syn::Error::new(pair.value.span(), why));
        };
        for line in line.value().split('\n') {
            text.push_str(line.strip_prefix(' ').unwrap_or(line).trim_end());
            text.push('\n');
        }
    }
    let text = text.trim();
    Ok((!text.is_empty()).then(|| text.to_owned()))
}

fn name(typed: &PatType) -> syn::Result<Ident> {
    match &*typed.pat {
        Pat::Ident(pattern) if pattern.by_ref.is_none() && pattern.subpat.is_none() => {
            Ok(pattern.ident.clone())
        }
        pattern => {
            let why = "an argument needs a name: write `name: Type` and take it apart inside";
            Err(syn::Error::new(pattern.span(), why))
        }
    }
}

/// Whether the type is the context, and then whether it is owned. Goes by the name, which is all
/// that a macro sees.
fn is_context(ty: &Type) -> Option<bool> {
    match bare(ty) {
        Type::Path(path) => {
            let last = path.path.segments.last()?;
            (last.ident == "Context" && last.arguments.is_empty()).then_some(true)
        }
        Type::Reference(TypeReference { mutability: None, elem, .. }) => {
            is_context(elem).map(|_| false)
        }
        _ => None,
    }
}

/// The `T` of a `State<T>`, and whether the state is owned. Goes by the name, as for the context.
fn state_of(ty: &Type) -> Option<(bool, &Type)> {
    match bare(ty) {
        Type::Reference(TypeReference { mutability: None, elem, .. }) => {
            Some((false, argument_of(elem, "State")?))
        }
        other => Some((true, argument_of(other, "State")?)),
    }
}

/// The type that holds a value for a parameter of this type.
fn holder(ty: &Type) -> syn::Result<(Type, Lend)> {
    match bare(ty) {
        Type::Reference(reference) => Ok((pointee(reference)?, Lend::Borrow)),
        other => match option_of(other) {
            Some(Type::Reference(reference)) => {
                let held = pointee(reference)?;
                let held = parse_quote_spanned!(other.span()=> ::core::option::Option<#held>);
                Ok((held, Lend::AsDeref))
            }
            _ => match SHARED.iter().find(|name| argument_of(other, name).is_some()) {
                Some(name) => {
                    let why = format!(
                        "`{name}` is for what calls share: take `&State<…>` of it, and give it \
                         to `Server::state`"
                    );
                    Err(syn::Error::new(ty.span(), why))
                }
                None => Ok((ty.clone(), Lend::Move)),
            },
        },
    }
}

/// Types that no client can send, and that say what their user is after.
const SHARED: [&str; 4] = ["Arc", "Mutex", "Rc", "RwLock"];

/// What a reference is lent from.
fn pointee(reference: &TypeReference) -> syn::Result<Type> {
    if let Some(mutability) = reference.mutability {
        let why = "an argument belongs to the call: take it by value to change it";
        return Err(syn::Error::new(mutability.span, why));
    }
    if let Some(lifetime) = &reference.lifetime {
        let why = "an argument lives as long as the call: drop the lifetime or take it by value";
        return Err(syn::Error::new(lifetime.span(), why));
    }
    let span = reference.elem.span();
    match bare(&reference.elem) {
        Type::Path(path) if path.path.is_ident("str") => {
            Ok(parse_quote_spanned!(span=> ::std::string::String))
        }
        Type::Slice(slice) => {
            let item = &slice.elem;
            Ok(parse_quote_spanned!(span=> ::std::vec::Vec<#item>))
        }
        other => {
            let ty = other.to_token_stream().to_string();
            let ty = ty.replace(" :: ", "::").replace(" < ", "<").replace(" >", ">");
            let why = format!(
                "an argument of the call is taken by value, `{ty}`; what calls share is taken as \
                 `&State<{ty}>` and given to `Server::state`"
            );
            Err(syn::Error::new(reference.span(), why))
        }
    }
}

/// The `T` of `Option<T>`.
pub(crate) fn option_of(ty: &Type) -> Option<&Type> {
    argument_of(ty, "Option")
}

/// The first type argument of a type of this name.
fn argument_of<'a>(ty: &'a Type, name: &str) -> Option<&'a Type> {
    let Type::Path(path) = bare(ty) else { return None };
    let last = path.path.segments.last().filter(|last| last.ident == name)?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    match arguments.args.first()? {
        GenericArgument::Type(inner) => Some(bare(inner)),
        _ => None,
    }
}

/// The type without the parentheses around it.
fn bare(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => bare(&group.elem),
        Type::Paren(paren) => bare(&paren.elem),
        other => other,
    }
}

//! What the three attributes have in common: a function, and the item that it becomes.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Ident, ItemFn, Path, ReturnType, Safety, Type, TypeReference, parse_quote};

use crate::options::Options;
use crate::parameter::{Argument, Parameter, doc_text};

/// Expands an attribute on `item` with `make`. An error stands beside a function of the right name
/// that can be any part of a server, so that it is the only error.
pub(crate) fn expand(
    item: TokenStream,
    make: impl FnOnce(Function) -> syn::Result<TokenStream>,
) -> TokenStream {
    let item: ItemFn = match syn::parse2(item) {
        Ok(item) => item,
        Err(error) => return error.to_compile_error(),
    };
    let (visibility, ident) = (item.vis.clone(), item.sig.ident.clone());
    Function::parse(item).and_then(make).unwrap_or_else(|error| {
        let error = error.to_compile_error();
        quote!(#error #visibility fn #ident<T>() -> T { ::core::unreachable!() })
    })
}

/// A function under one of the attributes.
pub(crate) struct Function {
    /// Without the attributes of its parameters.
    item: ItemFn,
    pub(crate) parameters: Vec<Parameter>,
    /// The text of the doc comment.
    pub(crate) docs: Option<String>,
}

impl Function {
    fn parse(mut item: ItemFn) -> syn::Result<Self> {
        item.modifiers.require_empty()?;
        let signature = &mut item.sig;
        let refused = |span, why: &str| Err(syn::Error::new(span, why));
        if !signature.generics.params.is_empty() {
            return refused(
                signature.generics.span(),
                "a generic function has no one schema: write a plain one that calls it",
            );
        }
        if let Safety::Unsafe(word) = signature.safety {
            return refused(word.span, "an unsafe function cannot be served to clients");
        }
        if let Some(abi) = &signature.abi {
            return refused(abi.span(), "a function with an ABI of its own cannot be served");
        }
        if let ReturnType::Type(_, ty) = &signature.output
            && let Type::Reference(TypeReference { lifetime, .. }) = &**ty
            && lifetime.as_ref().is_none_or(|lifetime| lifetime.ident != "static")
        {
            return refused(
                ty.span(),
                "a result outlives the call: return an owned value, such as a `String`",
            );
        }
        let parameters =
            signature.inputs.iter_mut().map(Parameter::take).collect::<syn::Result<Vec<_>>>()?;
        let is_context = |parameter: &&Parameter| matches!(parameter, Parameter::Context { .. });
        if parameters.iter().filter(is_context).count() > 1 {
            return refused(signature.inputs.span(), "one context is enough");
        }
        let docs = doc_text(&item.attrs)?;
        Ok(Self { item, parameters, docs })
    }

    /// The name on the wire.
    pub(crate) fn name(&self, options: &Options) -> String {
        let own = || self.item.sig.ident.unraw().to_string();
        options.name.as_ref().map_or_else(own, |name| name.value())
    }

    pub(crate) fn is_async(&self) -> bool {
        self.item.sig.asyncness.is_some()
    }

    pub(crate) fn arguments(&self) -> impl Iterator<Item = &Argument> {
        self.parameters.iter().filter_map(|parameter| match parameter {
            Parameter::Context { .. } | Parameter::State { .. } => None,
            Parameter::Argument(argument) => Some(&**argument),
        })
    }

    /// The calls that tell a builder which state the function takes.
    pub(crate) fn needs(&self) -> TokenStream {
        let shared = self.parameters.iter().filter_map(|parameter| match parameter {
            Parameter::State { shared, .. } => Some(shared),
            Parameter::Context { .. } | Parameter::Argument(_) => None,
        });
        quote!(#(.needs_state::<#shared>())*)
    }

    /// The call of the constructor of `product` that fits the function: `inline`, `blocking` or
    /// `waiting`.
    pub(crate) fn constructor(
        &self,
        root: &Path,
        product: &str,
        blocking: Option<Span>,
        arguments: &TokenStream,
    ) -> syn::Result<TokenStream> {
        let how = match (self.is_async(), blocking) {
            (true, None) => "waiting",
            (false, Some(_)) => "blocking",
            (false, None) => "inline",
            (true, Some(span)) => {
                let why = "an async function waits, it does not block: drop one of the two";
                return Err(syn::Error::new(span, why));
            }
        };
        let span = self.result_span();
        let (ty, how) = (Ident::new(product, span), Ident::new(how, span));
        let root = root.to_token_stream().into_iter().map(|mut token| {
            token.set_span(span);
            token
        });
        Ok(quote_spanned!(span=> #(#root)*::#ty::#how(#arguments)))
    }

    /// The handler: a closure that takes the context and an `input`, runs `prepare`, and calls the
    /// function. `place` says where the value of an argument is held then. With `fallible`,
    /// `prepare` may fail; the closure returns a `Result` then, as it does if the function takes
    /// state. `wrap` sees the expression that calls the function.
    pub(crate) fn handler(
        &self,
        root: &Path,
        input: &TokenStream,
        prepare: &TokenStream,
        place: impl Fn(&Argument) -> TokenStream,
        fallible: bool,
        wrap: impl Fn(TokenStream) -> TokenStream,
    ) -> TokenStream {
        let ident = &self.item.sig.ident;
        let context = Ident::new("context", Span::mixed_site());
        let takes_state =
            self.parameters.iter().any(|parameter| matches!(parameter, Parameter::State { .. }));
        let values = self.parameters.iter().map(|parameter| match parameter {
            Parameter::Argument(argument) => argument.lend(&place(argument)),
            Parameter::Context { owned } => match (self.is_async(), owned) {
                (false, false) => quote!(#context),
                (true, false) => quote!(&#context),
                (true, true) if !takes_state => quote!(#context),
                (true, true) => quote!(::core::clone::Clone::clone(&#context)),
                (false, true) => quote!(::core::clone::Clone::clone(#context)),
            },
            Parameter::State { owned, shared } => {
                let state = quote!(#context.state::<#shared>()?);
                if *owned { quote!(::core::clone::Clone::clone(#state)) } else { state }
            }
        });
        let is_argument = |parameter| matches!(parameter, &Parameter::Argument(_));
        let pattern =
            if self.parameters.iter().all(is_argument) { quote!(_) } else { quote!(#context) };
        let wait = self.is_async().then(|| quote!(.await));
        let mut answer = wrap(quote!(#ident::call(#(#values),*) #wait));
        if fallible || takes_state {
            answer = quote!(::core::result::Result::Ok::<_, #root::Failure>(#answer));
        }
        let span = self.result_span();
        if self.is_async() {
            quote_spanned!(span=> |#pattern: #root::Context, #input| async move { #prepare #answer })
        } else {
            quote_spanned!(span=> |#pattern: &#root::Context, #input| { #prepare #answer })
        }
    }

    /// The return type, if it can be named elsewhere: an `impl Trait` cannot.
    pub(crate) fn result(&self) -> Option<Type> {
        let ty = match &self.item.sig.output {
            ReturnType::Default => parse_quote!(()),
            ReturnType::Type(_, ty) => (**ty).clone(),
        };
        let mut named = true;
        let mut rest = vec![ty.to_token_stream()];
        while let Some(tokens) = rest.pop() {
            for token in tokens {
                match token {
                    TokenTree::Group(group) => rest.push(group.stream()),
                    token => named &= token.to_string() != "impl",
                }
            }
        }
        named.then_some(ty)
    }

    /// Where the compiler points if the return type does not do.
    fn result_span(&self) -> Span {
        let span = match &self.item.sig.output {
            ReturnType::Default => self.item.sig.ident.span(),
            ReturnType::Type(_, ty) => ty.span(),
        };
        Span::call_site().located_at(span)
    }

    /// The items that take the function's place: one of its name that makes the part, a `product`,
    /// by the expression `make`, and a type of its name that holds the function itself. It is a
    /// function, not a unit struct, because other names may shadow a function: `let add = …` and
    /// `fn note(note: String)` stay what they look like.
    pub(crate) fn declare(&self, root: &Path, product: &str, make: &TokenStream) -> TokenStream {
        let ItemFn { attrs, vis, sig, block, .. } = &self.item;
        let docs = attrs.iter().filter(|attribute| attribute.path().is_ident("doc"));
        let conditions: Vec<_> =
            attrs.iter().filter(|attribute| attribute.path().is_ident("cfg")).collect();
        let (ident, ty) = (&sig.ident, format_ident!("{product}"));
        let mut sig = sig.clone();
        sig.ident = Ident::new("call", ident.span());
        quote! {
            #(#conditions)*
            #(#docs)*
            #[must_use]
            #vis fn #ident() -> #root::#ty { #make }

            #(#conditions)*
            #[doc(hidden)]
            #[allow(non_camel_case_types, missing_debug_implementations, unreachable_pub)]
            #[allow(clippy::exhaustive_enums)]
            #vis enum #ident {}

            #(#conditions)*
            impl #ident {
                #(#attrs)*
                #[allow(missing_docs, unreachable_pub)]
                #vis #sig #block
            }
        }
    }
}

//! What the errors say, and what an expansion is made of. That the expansions work is for the
//! tests of `mcplane` to show, with whole servers.

#![allow(clippy::too_many_lines, reason = "lists of cases")]

use proc_macro2::TokenStream;
use quote::quote;

use crate::function::expand;

fn tool(attribute: TokenStream, item: TokenStream) -> String {
    expand(item, |function| crate::tool::make(attribute, &function)).to_string()
}

fn prompt(attribute: TokenStream, item: TokenStream) -> String {
    expand(item, |function| crate::prompt::make(attribute, &function)).to_string()
}

fn resource(attribute: TokenStream, item: TokenStream) -> String {
    expand(item, |function| crate::resource::make(attribute, &function)).to_string()
}

/// Whether the expansion is this one error, beside an item of the function's name.
#[track_caller]
fn refuses(expansion: &str, why: &str) {
    assert!(syn::parse_file(expansion).is_ok(), "{expansion}");
    assert_eq!(expansion.matches("compile_error").count(), 1, "{expansion}");
    assert!(expansion.contains(why), "{expansion}");
    assert!(expansion.contains("fn f < T >"), "{expansion}");
}

/// Whether the expansion parses, has no error, and contains all of these tokens.
#[track_caller]
fn accepts(expansion: &str, parts: &[TokenStream]) {
    assert!(syn::parse_file(expansion).is_ok(), "{expansion}");
    assert!(!expansion.contains("compile_error"), "{expansion}");
    for part in parts {
        assert!(expansion.contains(&part.to_string()), "no `{part}` in {expansion}");
    }
}

#[test]
fn functions_that_cannot_be_served_are_refused() {
    let none = || quote!();
    refuses(
        &tool(
            none(),
            quote!(
                fn f(&self) {}
            ),
        ),
        "takes what calls share as `state: &State<App>`",
    );
    refuses(
        &tool(
            none(),
            quote!(
                fn f<T>(a: T) {}
            ),
        ),
        "a generic function has no one schema",
    );
    refuses(
        &tool(
            none(),
            quote!(
                fn f<'a>(a: &'a str) {}
            ),
        ),
        "a generic function",
    );
    refuses(
        &tool(
            none(),
            quote!(
                unsafe fn f() {}
            ),
        ),
        "an unsafe function cannot be served",
    );
    refuses(
        &tool(
            none(),
            quote!(
                extern "C" fn f() {}
            ),
        ),
        "an ABI of its own",
    );
    refuses(
        &tool(
            none(),
            quote!(
                fn f(a: &str) -> &str {}
            ),
        ),
        "a result outlives the call",
    );
    refuses(
        &tool(
            none(),
            quote!(
                fn f(a: &Context, b: &Context) {}
            ),
        ),
        "one context is enough",
    );
    let docs = quote!(
        #[doc = include_str!("f.md")]
        fn f() {}
    );
    refuses(&tool(none(), docs), "say `description = …` instead");
    assert!(
        tool(
            none(),
            quote!(
                struct F;
            )
        )
        .contains("compile_error")
    );
}

#[test]
fn parameters_that_are_no_arguments_are_refused() {
    let none = || quote!();
    let needs_name = "an argument needs a name";
    refuses(
        &tool(
            none(),
            quote!(
                fn f((a, b): (i64, i64)) {}
            ),
        ),
        needs_name,
    );
    refuses(
        &tool(
            none(),
            quote!(
                fn f(_: i64) {}
            ),
        ),
        needs_name,
    );
    refuses(
        &tool(
            none(),
            quote!(
                fn f(ref a: i64) {}
            ),
        ),
        needs_name,
    );
    refuses(
        &tool(
            none(),
            quote!(
                fn f(a: &mut String) {}
            ),
        ),
        "take it by value to change it",
    );
    refuses(
        &tool(
            none(),
            quote!(
                fn f(a: &'static str) {}
            ),
        ),
        "lives as long as the call",
    );
    refuses(
        &tool(
            none(),
            quote!(
                fn f(#[arg(defalt)] a: u8) {}
            ),
        ),
        "unknown option `defalt`",
    );
    let twice = quote!(
        fn f(
            #[arg(default)]
            #[arg(rename = "b")]
            a: u8,
        ) {
        }
    );
    refuses(&tool(none(), twice), "one `#[arg(…)]` is enough");
    let again = quote!(
        fn f(#[arg(rename = "b", rename = "c")] a: u8) {}
    );
    refuses(&tool(none(), again), "`rename` is said twice");
    let context = quote!(
        fn f(#[arg(default)] context: &Context) {}
    );
    refuses(&tool(none(), context), "the context is the request");
}

#[test]
fn what_calls_share_is_no_argument() {
    let none = || quote!();
    let borrowed = quote!(
        fn f(app: &my::App, a: u8) {}
    );
    let why = "taken as `&State<my::App>` and given to `Server::state`";
    refuses(&tool(none(), borrowed.clone()), why);
    refuses(&prompt(none(), borrowed), why);
    let optional = quote!(
        fn f(app: Option<&App>) {}
    );
    refuses(&tool(none(), optional), "by value, `App`");
    let counted = quote!(
        fn f(app: std::sync::Arc<App>) {}
    );
    refuses(&tool(none(), counted), "`Arc` is for what calls share: take `&State<…>`");
    let described = quote!(
        fn f(#[arg(default)] app: &State<App>) {}
    );
    refuses(&tool(none(), described), "the state is the server's, not an argument");
}

#[test]
fn state_is_asked_of_the_context_and_declared() {
    let item = quote!(
        async fn f(app: mcplane::State<App>, a: u8, context: Context, db: &State<Db>) {}
    );
    let expansion = tool(quote!(), item);
    let call = quote! {
        f::call(
            ::core::clone::Clone::clone(context.state::<App>()?),
            arguments.a,
            ::core::clone::Clone::clone(&context),
            context.state::<Db>()?
        ).await
    };
    let fallible = quote!(::core::result::Result::Ok::<_, ::mcplane::Failure>);
    accepts(&expansion, &[call, fallible, quote!(.needs_state::<App>() .needs_state::<Db>())]);
    let item = quote!(
        fn f(db: &State<Db>) {}
    );
    let call = quote!(f::call(context.state::<Db>()?));
    accepts(&prompt(quote!(), item.clone()), &[call.clone(), quote!(.needs_state::<Db>())]);
    accepts(&resource(quote!("x://y"), item), &[call, quote!(.needs_state::<Db>())]);
}

#[test]
fn options_that_do_not_fit_are_refused() {
    let plain = || {
        quote!(
            fn f() {}
        )
    };
    refuses(&tool(quote!(readonly), plain()), "unknown option `readonly`: there are name, title");
    refuses(&tool(quote!(name = ""), plain()), "a name cannot be empty");
    refuses(&tool(quote!(read_only = 1), plain()), "expected boolean literal");
    refuses(&tool(quote!(idempotent, idempotent), plain()), "`idempotent` is said twice");
    refuses(
        &tool(
            quote!(blocking),
            quote!(
                async fn f() {}
            ),
        ),
        "drop one of the two",
    );
    refuses(&prompt(quote!(blocking), plain()), "unknown option `blocking`");
    let ranged = quote!(
        fn f(#[arg(range(min = 1))] a: u8) {}
    );
    refuses(&prompt(quote!(), ranged), "it can have rename, title, default");
}

#[test]
fn a_uri_and_its_parameters_belong_together() {
    let plain = || {
        quote!(
            fn f() {}
        )
    };
    let one = || {
        quote!(
            fn f(id: u64) {}
        )
    };
    refuses(&resource(quote!(), plain()), "a resource begins with its URI");
    refuses(&resource(quote!(name = "f"), plain()), "a resource begins with its URI");
    refuses(&resource(quote!("x://y" name = "f"), plain()), "expected `,`");
    refuses(&resource(quote!("x://y", size = 3), plain()), "unknown option `size`");
    refuses(&resource(quote!(""), plain()), "a URI cannot be empty");
    refuses(&resource(quote!("x://{id"), one()), "is not closed");
    refuses(&resource(quote!("x://{+id}"), one()), "letters, digits and `_`");
    refuses(&resource(quote!("x://{id}{b}"), one()), "text between them");
    refuses(&resource(quote!("x://{id}/{id}"), one()), "stands there twice");
    refuses(&resource(quote!("x://y"), one()), "no variable `{id}`: it has none");
    refuses(&resource(quote!("x://{name}"), one()), "no variable `{id}`: it has `{name}`");
    refuses(&resource(quote!("x://{id}"), plain()), "no parameter takes `{id}`");
    let optional = quote!(
        fn f(id: Option<u64>) {}
    );
    refuses(&resource(quote!("x://{id}"), optional), "drop the `Option`");
    let default = quote!(
        fn f(#[arg(default = 1)] id: u64) {}
    );
    refuses(&resource(quote!("x://{id}"), default), "always there: it can have rename");
}

#[test]
fn the_function_says_where_it_runs() {
    accepts(
        &tool(
            quote!(),
            quote!(
                fn f() {}
            ),
        ),
        &[quote!(::mcplane::Tool::inline)],
    );
    accepts(
        &tool(
            quote!(blocking),
            quote!(
                fn f() {}
            ),
        ),
        &[quote!(::mcplane::Tool::blocking)],
    );
    let waiting = [quote!(::mcplane::Tool::waiting), quote!(f::call().await)];
    accepts(
        &tool(
            quote!(),
            quote!(
                async fn f() {}
            ),
        ),
        &waiting,
    );
    accepts(
        &prompt(
            quote!(),
            quote!(
                async fn f() {}
            ),
        ),
        &[quote!(::mcplane::Prompt::waiting)],
    );
    let one = resource(
        quote!("x://y"),
        quote!(
            fn f() {}
        ),
    );
    accepts(&one, &[quote!(::mcplane::Resource::inline)]);
    let many = resource(
        quote!("x://{r#type}", blocking),
        quote!(
            fn f(r#type: &str) {}
        ),
    );
    refuses(&many, "letters, digits and `_`");
    let many = resource(
        quote!("x://{type}", blocking),
        quote!(
            fn f(r#type: &str) {}
        ),
    );
    accepts(&many, &[quote!(::mcplane::ResourceTemplate::blocking)]);
}

#[test]
fn arguments_are_lent_from_what_holds_them() {
    let item = quote! {
        fn f(a: &str, b: Option<&str>, c: &[u8], d: Point, e: Option<Point>, mut f: (u8)) {}
    };
    let lent = quote! {
        f::call(
            &arguments.a, arguments.b.as_deref(), &arguments.c,
            arguments.d, arguments.e, arguments.f
        )
    };
    let held = quote! {
        a: ::std::string::String,
        b: ::core::option::Option<::std::string::String>,
        c: ::std::vec::Vec<u8>,
        d: Point,
        e: Option<Point>,
        f: (u8),
    };
    accepts(&tool(quote!(), item), &[lent, held]);
}

#[test]
fn a_type_that_can_be_named_decides_how_a_result_is_wrapped() {
    let named = quote!(
        fn f() -> Result<Point, String> {}
    );
    let by_type = quote! {
        (&&&&::mcplane::__private::Returned::<Result<Point, String> >::new()).kind()
            .wrap(f::call())
    };
    accepts(&tool(quote!(), named), &[by_type]);
    let hidden = quote!(
        fn f() -> Result<impl IntoToolResult, String> {}
    );
    assert!(!tool(quote!(), hidden).contains("Returned"));
}

#[test]
fn the_context_is_given_wherever_it_stands() {
    let owned = quote!(
        fn f(a: u8, context: mcplane::Context) {}
    );
    accepts(&tool(quote!(), owned), &[quote!(Clone::clone(context))]);
    let borrowed = quote!(
        async fn f(_: &Context, a: u8) {}
    );
    accepts(&tool(quote!(), borrowed), &[quote!(f::call(&context, arguments.a).await)]);
    let none = quote!(
        fn f() {}
    );
    accepts(&tool(quote!(), none), &[quote!(|_: &::mcplane::Context, _: __Arguments|)]);
}

#[test]
fn words_of_the_function_describe_the_part() {
    let item = quote! {
        /// First line.
        ///
        ///     indented
        #[cfg(feature = "f")]
        pub fn f() {}
    };
    let expansion = tool(quote!(title = "F", read_only, open_world = false), item.clone());
    let said = [
        quote!(.title("F") .description("First line.\n\n    indented")),
        quote!(.read_only_hint(true) .open_world_hint(false)),
        quote!(
            pub fn f() -> ::mcplane::Tool
        ),
        quote!(
            pub fn call() {}
        ),
    ];
    accepts(&expansion, &said);
    assert_eq!(expansion.matches("# [cfg (feature = \"f\")]").count(), 4, "{expansion}");
    let other = tool(quote!(description = TEXT, name = "g", crate = crate::sub), item);
    accepts(&other, &[quote!(crate::sub::Tool::inline), quote!(.description(TEXT))]);
}

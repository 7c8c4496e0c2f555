//! Forms whose fields are those of a type.

use mcplane::proto::types::{ElicitForm, ElicitResult};
use mcplane::{Client, Context, Elicited, Server, tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{ERAS, connect};

#[derive(Debug, PartialEq, Eq, Deserialize, JsonSchema)]
struct Trip {
    /// where to
    city: String,
    #[schemars(range(min = 1, max = 30))]
    nights: u8,
    class: Option<Class>,
}

#[derive(Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Class {
    First,
    Second,
}

#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "it is never asked for")]
struct Nested {
    trip: Trip,
}

#[tool]
async fn book(context: &Context) -> mcplane::Result<String> {
    Ok(match context.elicit_form::<Trip>("Where to?").await? {
        Elicited::Accepted(trip) => format!("{} {} {:?}", trip.city, trip.nights, trip.class),
        Elicited::Declined => "declined".into(),
        Elicited::Cancelled => "cancelled".into(),
    })
}

#[tool]
async fn nested(context: &Context) -> mcplane::Result<String> {
    let asked = context.elicit_form::<Nested>("Where to?").await?;
    Ok(format!("{}", asked.accepted().is_some()))
}

/// The user, as a test plays them: `plan` names what they do.
async fn user(plan: &'static str, form: ElicitForm) -> ElicitResult {
    let fields: Value = serde_json::from_str(form.requested_schema.get()).unwrap();
    let class = json!({"type": "string", "enum": ["first", "second"]});
    let city = json!({"type": "string", "description": "where to"});
    let nights = json!({"type": "integer", "minimum": 1, "maximum": 30});
    let properties = json!({"city": city, "nights": nights, "class": class});
    assert_eq!(fields["properties"], properties);
    assert_eq!(fields["required"], json!(["city", "nights"]));
    let filled = ElicitResult::accept().with("city", "Rome").with("nights", 3);
    match plan {
        "all" => filled.with("class", "first"),
        "some" => filled,
        "wrong" => ElicitResult::accept().with("city", "Rome").with("nights", "many"),
        "decline" => ElicitResult::decline(),
        _ => ElicitResult::cancel(),
    }
}

#[tokio::test]
async fn the_answer_is_the_type() {
    for revision in ERAS {
        for (plan, told) in [
            ("all", Ok("Rome 3 Some(First)")),
            ("some", Ok("Rome 3 None")),
            ("decline", Ok("declined")),
            ("cancel", Ok("cancelled")),
            ("wrong", Err("invalid type: string \"many\", expected u8")),
        ] {
            let server = Server::new("travel", "1").tool(book);
            let client = Client::builder("user", "1").on_elicit_form(move |form| user(plan, form));
            let client = connect(client, server, revision).await;
            let answer = client.call_tool("book", &json!({})).await;
            let text = |result: &mcplane::types::CallToolResult| {
                result.content[0].as_text().unwrap().to_owned()
            };
            match (told, &answer) {
                (Ok(told), Ok(result)) => assert_eq!(text(result), told, "{revision}"),
                // Wrong answers are the call's fault where they came with it, and the client's
                // where they came alone.
                (Err(why), Ok(result)) => {
                    assert!(result.is_error() && text(result).contains(why), "{result:?}");
                }
                (Err(why), Err(error)) => assert!(error.to_string().contains(why), "{error}"),
                (Ok(_), Err(error)) => panic!("{revision} {plan}: {error}"),
            }
        }
    }
}

#[tokio::test]
async fn a_type_that_is_no_form_is_refused_before_anybody_is_asked() {
    for revision in ERAS {
        let server = Server::new("travel", "1").tool(nested);
        let client = Client::builder("user", "1").on_elicit_form(|_| async { unreachable!() });
        let client = connect(client, server, revision).await;
        let result = client.call_tool("nested", &json!({})).await.unwrap();
        let text = result.content[0].as_text().unwrap();
        assert!(result.is_error() && text.contains("Nested` cannot be a form"), "{text}");
        assert!(text.contains("its field `trip` is not flat"), "{text}");
    }
}

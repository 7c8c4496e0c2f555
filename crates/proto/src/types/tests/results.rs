use super::{raw, written};
use crate::method::Method;
use crate::types::*;
use crate::version::Revision::{V2025_11_25, V2026_07_28};

const INFO: &[u8] = br#"{"name":"s","version":"1"}"#;

fn modern(result: &impl WireResult) -> String {
    let mut out = b"> ".to_vec();
    result.write(&ResultContext { revision: V2026_07_28, server_info: Some(INFO) }, &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn modern_results_say_who_answers() {
    let info = r#""io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}"#;
    assert_eq!(
        modern(&EmptyResult::default()),
        format!(r#"> {{"resultType":"complete","_meta":{{{info}}}}}"#)
    );
    let forged = raw(r#"{"a":1.0,"io.modelcontextprotocol/serverInfo":{"name":"forged"},"b":[]}"#);
    let result = ReadResourceResult { meta: Some(forged), ..ReadResourceResult::new(vec![]) };
    assert_eq!(
        modern(&result),
        format!(
            r#"> {{"resultType":"complete","_meta":{{{info},"a":1.0,"b":[]}},"ttlMs":0,"cacheScope":"private","contents":[]}}"#
        )
    );
    assert_eq!(written(&result, V2025_11_25), r#"{"_meta":{"a":1.0,"b":[]},"contents":[]}"#);
    let only = raw(r#"{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}}"#);
    let result = EmptyResult { meta: Some(only.clone()) };
    assert_eq!(written(&result, V2025_11_25), "{}");
    let discovered = DiscoverResult::new(&[], ServerCapabilities::new());
    assert!(discovered.server_info().is_none());
    let discovered = DiscoverResult { meta: Some(only), ..discovered };
    assert_eq!(discovered.server_info().unwrap().name, "s");
}

#[test]
fn subscriptions_name_their_request_in_its_own_type() {
    let meta = |id: crate::Id| ListenResult::new(&id).meta.unwrap();
    assert_eq!(meta(1.into()).get(), r#"{"io.modelcontextprotocol/subscriptionId":1}"#);
    assert_eq!(crate::meta::subscription_id(&meta("1".into())), Some("1".into()));
    let offered = SubscriptionFilter { tools_list_changed: Some(true), ..Default::default() };
    let wish = SubscriptionFilter {
        prompts_list_changed: Some(true),
        resource_subscriptions: vec!["u".into()],
        ..offered.clone()
    };
    let honoured = SubscriptionFilter { prompts_list_changed: None, ..wish.clone() };
    assert_eq!(wish.honoured(&offered), honoured);
}

fn call(json: &str, tasks: bool) -> Result<Resulting<CallToolResult>, ResultError> {
    Resulting::parse(Method::ToolsCall, tasks, json.as_bytes())
}

#[test]
fn the_type_of_a_result_decides_and_absence_means_complete() {
    for json in [r#"{"content":[]}"#, r#"{"content":[],"resultType":"complete","task":1}"#] {
        assert!(matches!(call(json, false), Ok(Resulting::Complete(_))), "{json}");
    }
    let asked = r#"{"resultType":"input_required","requestState":"s","inputRequests":{"b":{"method":"elicitation/create","params":{"message":"m","requestedSchema":{}}},"a":{"method":"roots/list"},"c":{"method":"new/thing","params":{"z":1.0}}}}"#;
    let Ok(Resulting::InputRequired(input)) = call(asked, false) else { panic!("not asked") };
    assert_eq!(input.request_state.as_deref(), Some("s"));
    let questions = input.input_requests.as_ref().unwrap();
    let kinds: Vec<_> = questions.iter().map(|(key, q)| (key, q.parse().unwrap())).collect();
    assert!(matches!(
        kinds[..],
        [
            ("b", InputQuestion::Elicit(ElicitParams::Form(_))),
            ("a", InputQuestion::Roots(_)),
            ("c", InputQuestion::Unknown)
        ]
    ));
    let again = written(&*input, V2026_07_28);
    assert!(
        again.starts_with(r#"{"resultType":"input_required","inputRequests":{"b":"#),
        "{again}"
    );
    let task = r#"{"resultType":"task","taskId":"t","status":"working","createdAt":"a","lastUpdatedAt":"a","ttlMs":1.5e3,"pollIntervalMs":5000.9}"#;
    let Ok(Resulting::Task(task)) = call(task, true) else { panic!("no task") };
    assert_eq!((task.0.ttl_ms, task.0.poll_interval_ms), (Some(1500), Some(5000)));
}

#[test]
fn other_types_of_results_are_refused() {
    let error = |json: &str, tasks| call(json, tasks).unwrap_err().to_string();
    let task = r#"{"resultType":"task","taskId":"t","status":"working","createdAt":"a","lastUpdatedAt":"a","ttlMs":1}"#;
    assert_eq!(
        error(task, false),
        "the result of tools/call has resultType \"task\", which this request does not allow"
    );
    assert!(error(r#"{"resultType":"surprise","content":[]}"#, true).contains("\"surprise\""));
    assert!(error(r#"{"resultType":7,"content":[]}"#, true).starts_with("malformed result"));
    assert_eq!(
        error(r#"{"resultType":"input_required"}"#, true),
        "the result of tools/call requires input but names neither inputRequests nor requestState"
    );
    assert!(
        error("{}", true).starts_with("malformed result of tools/call: missing field `content`")
    );
    let listed = br#"{"resultType":"input_required","requestState":"s"}"#;
    let listed = Resulting::<ListToolsResult>::parse(Method::ToolsList, true, listed);
    assert!(matches!(listed, Err(ResultError::Type { method: Method::ToolsList, .. })));
}

#[test]
fn cache_hints_never_break_a_result() {
    let read = |hints: &str| {
        let json = format!(r#"{{"tools":[]{hints}}}"#);
        let result: ListToolsResult = serde_json::from_str(&json).unwrap();
        (result.ttl_ms, result.cache_scope)
    };
    assert_eq!(read(""), (0, CacheScope::Private));
    assert_eq!(read(r#","ttlMs":5,"cacheScope":"public""#), (5, CacheScope::Public));
    for hint in ["-5", "null", "\"5\"", "{}", "[1]"] {
        assert_eq!(read(&format!(r#","ttlMs":{hint},"cacheScope":{hint}"#)).0, 0, "{hint}");
    }
    assert_eq!(read(r#","ttlMs":2.9,"cacheScope":"shared""#), (2, CacheScope::Private));
}

#[test]
fn answers_travel_by_the_keys_of_their_questions() {
    let form = ElicitForm::new("m", raw(r#"{"type":"object","properties":{}}"#)).into();
    let input = InputRequired::new().ask("who", InputRequest::elicit(&form)).state("s");
    assert_eq!(
        written(&input, V2026_07_28),
        r#"{"resultType":"input_required","inputRequests":{"who":{"method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{}}}}},"requestState":"s"}"#
    );
    let answers = InputResponses::new().elicited("who", &ElicitResult::accept().with("a", 1));
    let json = serde_json::to_string(&answers).unwrap();
    assert_eq!(json, r#"{"who":{"action":"accept","content":{"a":1}}}"#);
    let back: ElicitResult = answers.parse("who").unwrap().unwrap();
    assert_eq!(back.action, ElicitAction::Accept);
    assert!(answers.parse::<ElicitResult>("what").unwrap().is_none());
    assert!(answers.parse::<ListRootsResult>("who").is_err());
}

#[test]
fn a_url_that_must_be_opened_first_is_an_error() {
    let url = ElicitUrl::new("m", "https://x").elicitation_id("1");
    let error = UrlElicitationRequired { elicitations: vec![url] }.error();
    assert_eq!(
        serde_json::to_string(&error).unwrap(),
        r#"{"code":-32042,"message":"open the given URL first, then call again","data":{"elicitations":[{"mode":"url","message":"m","url":"https://x","elicitationId":"1"}]}}"#
    );
}

//! Who answers which request, and how the answer is written.

use std::borrow::Cow;
use std::future::Future;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use mcplane_proto::error::{Code, ErrorObject, shorten};
use mcplane_proto::message::{Message, Outcome, Part, write};
use mcplane_proto::method::Method;
use mcplane_proto::types::{
    self, CallToolResult, CompleteParams, GetPromptParams, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, ReadResourceResult,
    ResultContext, WireResult, parse_params,
};
use mcplane_proto::version::{Era, Revision};

use super::Service;
use super::connection::{Connection, Work};
use super::context::{Context, Event, Reply, Stop};
use super::failure::Failure;
use super::handler::Handler;
use super::pool::run_contained;
use super::prompt::{Prompt, PromptArguments};
use super::resource::ResourceRequest;
use super::rounds::Rounds;
use super::tool::{Arguments, CompiledTool};
use crate::budget::{Budget, Charge};
use crate::stages::{self, Stage};

impl Connection {
    /// One request, from its parameters to its handler. Errors are answered here.
    pub(super) fn dispatch(&mut self, method: Method, revision: Revision, message: Message) {
        let refused = match method {
            Method::ToolsCall => self.call_tool(revision, &message),
            Method::ResourcesRead => self.read_resource(revision, &message),
            Method::PromptsGet => self.fill_prompt(revision, &message),
            Method::Complete => self.complete(revision, &message),
            _ => self.list(method, revision, &message),
        };
        match refused {
            Ok(()) => {}
            Err(error) if error.code == Code::OVERLOADED => self.refuse_overload(&message, &error),
            Err(error) => self.write_error(&message, &error),
        }
    }

    fn write_error(&mut self, message: &Message, error: &ErrorObject) {
        let start = self.out.len();
        self.out.error(message.part(Part::Id), error);
        self.end_reply(start);
    }

    /// Says that there is too much to do: at once, or when it is its turn.
    fn refuse_overload(&mut self, message: &Message, error: &ErrorObject) {
        let Some(id) = message.id().filter(|_| !self.service.shared.refusals.may_tell()) else {
            return self.write_error(message, error);
        };
        self.begin(id.clone(), Work::Refused);
        self.events.outlet().refuse(id, Reply::error(message.part(Part::Id), error));
    }

    fn call_tool(&mut self, revision: Revision, message: &Message) -> Result<(), ErrorObject> {
        let catalog = self.fresh_catalog();
        let name = required(message, Part::Name, "name")?;
        let unknown = || ErrorObject::invalid_params(format!("unknown tool: {}", shorten(&name)));
        let tool = catalog.tools.get(&name).ok_or_else(unknown)?;
        if !matches!(tool.handler, Handler::Inline(_)) {
            // What cannot be done need not be looked at.
            tool.handler.pool(&self.service.shared.pools).check()?;
        }
        // Go writes a map that is not there as null.
        let given = message.share(Part::Arguments).filter(|json| **json != *b"null");
        let arguments = Arguments::new(given);
        if let Err(violations) = Stage::Validate.of(|| tool.input.check(arguments.as_bytes())) {
            let why = format!("invalid arguments for tool `{name}`: {violations}");
            // From 2025-11-25 on the model reads it and mends its call; before, the client.
            if revision < Revision::V2025_11_25 {
                return Err(ErrorObject::invalid_params(why));
            }
            self.write_result(&CallToolResult::text(why).error(), revision, message);
            return Ok(());
        }
        let context = self.context(Method::ToolsCall, revision, message)?;
        let (output, definition) = (tool.output.clone(), Arc::clone(&tool.definition));
        let wraps =
            tool.wraps && (Revision::V2025_06_18..=Revision::V2025_11_25).contains(&revision);
        self.run(&tool.handler, context, arguments, move |result, reply| match CompiledTool::check(
            output.as_ref(),
            &definition.name,
            result,
        ) {
            Ok(result) if wraps => reply.result(&result.wrapped()),
            Ok(result) => reply.result(&result),
            Err(failure) => match failure.into_tool(revision) {
                Ok(why) => reply.result(&CallToolResult::text(why).error()),
                Err(error) => reply.error(&error),
            },
        })
    }

    fn read_resource(&mut self, revision: Revision, message: &Message) -> Result<(), ErrorObject> {
        let catalog = self.fresh_catalog();
        let uri = required(message, Part::Uri, "uri")?;
        let (handler, mime_type, variables) = match catalog.resources.get(&uri) {
            Some(found) => (&found.handler, &found.definition.mime_type, Vec::new()),
            None => catalog
                .templates
                .iter()
                .find_map(|row| {
                    let variables = row.1.variables(&uri)?;
                    Some((&row.0.handler, &row.0.definition.mime_type, variables))
                })
                .ok_or_else(|| ErrorObject::resource_not_found(revision.era(), &uri))?,
        };
        let request = ResourceRequest { uri: uri.into_owned(), variables };
        let context = self.context(Method::ResourcesRead, revision, message)?;
        let (cache, mime_type) = (self.service.shared.cache.clone(), mime_type.clone());
        self.run(handler, context, request, move |result, reply| match result {
            Ok(result) => {
                let mut result: ReadResourceResult = result;
                for contents in &mut result.contents {
                    contents.mime_type = contents.mime_type.take().or_else(|| mime_type.clone());
                }
                if result.ttl_ms == 0 {
                    result = result.cached(cache.ttl_ms, cache.scope);
                }
                reply.result(&result);
            }
            Err(failure) => reply.failure(failure),
        })
    }

    fn fill_prompt(&mut self, revision: Revision, message: &Message) -> Result<(), ErrorObject> {
        let catalog = self.fresh_catalog();
        let params: GetPromptParams = parse_params(message.part(Part::Params))?;
        let name = params.name;
        let unknown = || ErrorObject::invalid_params(format!("unknown prompt: {}", shorten(&name)));
        let prompt = catalog.prompts.get(&name).ok_or_else(unknown)?;
        let arguments = PromptArguments::new(params.arguments.unwrap_or_default());
        Prompt::check(&prompt.definition, &arguments)?;
        let context = self.context(Method::PromptsGet, revision, message)?;
        let description = prompt.definition.description.clone();
        self.run(&prompt.handler, context, arguments, move |result, reply| match result {
            Ok(mut result) => {
                result.description = result.description.take().or(description);
                reply.result(&result);
            }
            Err(failure) => reply.failure(failure),
        })
    }

    fn complete(&mut self, revision: Revision, message: &Message) -> Result<(), ErrorObject> {
        let catalog = self.fresh_catalog();
        let missing = || ErrorObject::method_not_found(Method::Complete.as_str());
        let handler = catalog.completion.as_ref().ok_or_else(missing)?;
        let params: CompleteParams = parse_params(message.part(Part::Params))?;
        let context = self.context(Method::Complete, revision, message)?;
        self.run(handler, context, params, |result, reply| match result {
            Ok(result) => reply.result(&result),
            Err(failure) => reply.failure(failure),
        })
    }

    fn list(
        &mut self,
        method: Method,
        revision: Revision,
        message: &Message,
    ) -> Result<(), ErrorObject> {
        let cursor = match message.part(Part::Cursor) {
            None | Some(b"null") => None,
            Some(_) => Some(required(message, Part::Cursor, "cursor")?),
        };
        let (cursor, size) = (cursor.as_deref(), self.service.shared.page_size);
        let (catalog, cache) = (self.fresh_catalog(), self.service.shared.cache.clone());
        macro_rules! page {
            ($table:ident, $result:ident, $definition:expr) => {{
                let (rows, next) = catalog.$table.page(cursor, size)?;
                let mut result = $result::new(rows.into_iter().map($definition).collect());
                result.next_cursor = next;
                let result = result.cached(cache.ttl_ms, cache.scope);
                self.write_result(&result, revision, message);
            }};
        }
        match method {
            Method::ToolsList => {
                page!(tools, ListToolsResult, |tool| types::Tool::clone(&tool.definition));
            }
            Method::ResourcesList => {
                page!(resources, ListResourcesResult, |row| row.definition.clone());
            }
            Method::ResourceTemplatesList => {
                page!(templates, ListResourceTemplatesResult, |row| row.0.definition.clone());
            }
            Method::PromptsList => {
                page!(prompts, ListPromptsResult, |row| row.definition.clone());
            }
            _ => return Err(ErrorObject::method_not_found(method.as_str())),
        }
        Ok(())
    }

    fn write_result(&mut self, result: &impl WireResult, revision: Revision, message: &Message) {
        let start = self.out.len();
        self.out.reply(|out| write_result(result, &self.service, revision, message, out));
        self.end_reply(start);
    }

    fn context(
        &self,
        method: Method,
        revision: Revision,
        message: &Message,
    ) -> Result<Context, ErrorObject> {
        let asks = revision.era() == Era::Modern && method.takes_input();
        let rounds = match asks {
            // Inline handlers cannot ask, so that their way costs nothing.
            true if message.part(Part::RequestState).is_some()
                || message.part(Part::InputResponses).is_some() =>
            {
                Some(Arc::new(Rounds::open(
                    message,
                    &self.service.shared.key,
                    self.service.principal(),
                )?))
            }
            _ => None,
        };
        Ok(Context {
            message: message.clone(),
            revision,
            client: self.session.client_capabilities(message),
            client_info: self.session.client_info(message),
            level: self.session.log_level(revision, message),
            outlet: self.events.outlet(),
            service: self.service.clone(),
            stop: None,
            rounds,
        })
    }

    /// Runs a handler where it belongs. `finish` writes the answer.
    fn run<I, O, F>(
        &mut self,
        handler: &Handler<I, O>,
        mut context: Context,
        input: I,
        finish: F,
    ) -> Result<(), ErrorObject>
    where
        I: Send + 'static,
        O: Send + 'static,
        F: FnOnce(O, &mut Answer<'_>) + Send + 'static,
    {
        if let Handler::Inline(handler) = handler {
            let output = Stage::Handler.of(|| run_contained(|| handler(&context, input)))?;
            self.send_notes();
            let start = self.out.len();
            let room = Some((&self.budget, &mut self.held));
            self.out.reply(|out| {
                let mut answer = Answer::new(&context, out, room);
                Stage::Encode.of(|| finish(output, &mut answer));
                answer.outcome
            });
            self.end_reply(start);
            return Ok(());
        }
        let place = handler.pool(&self.service.shared.pools).place()?;
        let Some(id) = context.message.id() else { return Ok(()) };
        let stop = Arc::new(Stop::default());
        context.stop = Some(Arc::clone(&stop));
        let method = context.message.method();
        if context.revision.era() == Era::Modern && method.is_some_and(Method::takes_input) {
            let none = || {
                Rounds::open(&context.message, &self.service.shared.key, self.service.principal())
                    .map(Arc::new)
            };
            context.rounds = Some(context.rounds.take().map_or_else(none, Ok)?);
        }
        let handler = handler.clone();
        let outlet = self.events.outlet();
        let answered = id.clone();
        let queued = stages::now();
        let task = tokio::spawn(async move {
            let output = match handler {
                Handler::Waiting(handler) => {
                    let work = handler(context.clone(), input);
                    let work = unless_asking(context.rounds.clone(), work);
                    place.wait(timed(queued, work)).await
                }
                Handler::Blocking(handler) | Handler::Inline(handler) => {
                    let context = context.clone();
                    let work = move || {
                        Stage::Queue.since(queued);
                        Stage::Handler.of(|| handler(&context, input))
                    };
                    place.block(work).await.map(Some)
                }
            };
            let mut message = Vec::new();
            let mut answer = Answer::new(&context, &mut message, None);
            match output {
                Ok(Some(output)) => Stage::Encode.of(|| finish(output, &mut answer)),
                Ok(None) => answer.ask(),
                Err(error) => answer.error(&error),
            }
            let outcome = answer.outcome;
            // The connection is gone: nobody waits for the answer.
            outlet.send(Event::Done(answered, Reply { message, outcome }));
        });
        self.begin(id, Work::Task(stop, task.abort_handle()));
        Ok(())
    }
}

/// A handler whose turn has come.
async fn timed<T>(queued: Option<Instant>, work: impl Future<Output = T>) -> T {
    Stage::Queue.since(queued);
    let start = stages::now();
    let output = work.await;
    Stage::Handler.since(start);
    output
}

/// Runs a handler until it is done, or asks something that only another round can answer (`None`).
async fn unless_asking<T>(rounds: Option<Arc<Rounds>>, work: impl Future<Output = T>) -> Option<T> {
    let mut work = std::pin::pin!(work);
    std::future::poll_fn(move |cx| match work.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending if rounds.as_ref().is_some_and(|rounds| rounds.is_asking()) => {
            Poll::Ready(None)
        }
        Poll::Pending => Poll::Pending,
    })
    .await
}

/// An answer being written.
struct Answer<'a> {
    context: &'a Context,
    out: &'a mut Vec<u8>,
    outcome: Outcome,
    /// Where the output is that of the connection: what a large buffer for it is charged to.
    room: Option<(&'a Budget, &'a mut Charge)>,
}

impl<'a> Answer<'a> {
    const fn new(
        context: &'a Context,
        out: &'a mut Vec<u8>,
        room: Option<(&'a Budget, &'a mut Charge)>,
    ) -> Self {
        Self { context, out, outcome: Outcome::Result, room }
    }

    fn result(&mut self, result: &impl WireResult) {
        if let Some((budget, charge)) = &mut self.room {
            budget.make_room(self.out, result.len_hint() + ENVELOPE_BYTES, charge);
        }
        let Context { message, revision, service, .. } = self.context;
        self.outcome = write_result(result, service, *revision, message, self.out);
    }

    fn error(&mut self, error: &ErrorObject) {
        write::error(self.out, self.context.message.part(Part::Id), error);
        self.outcome = error.into();
    }

    /// The failure of anything but a tool.
    fn failure(&mut self, failure: Failure) {
        let Context { message, revision, .. } = self.context;
        let reads = message.method() == Some(Method::ResourcesRead);
        let uri = reads.then(|| message.text(Part::Uri)).flatten();
        self.error(&failure.into_rpc(*revision, uri.as_deref()));
    }

    /// The questions of a handler that was stopped.
    fn ask(&mut self) {
        let Context { message, rounds, service, .. } = self.context;
        let Some(rounds) = rounds else { return };
        match rounds.close(message, &service.shared.key, service.principal()) {
            Ok(round) => self.result(&round),
            Err(error) => self.error(&error),
        }
    }
}

/// What there is around a long text in an answer, in bytes; about, for more room is made if it is more.
const ENVELOPE_BYTES: usize = 1024;

fn write_result(
    result: &impl WireResult,
    service: &Service,
    revision: Revision,
    message: &Message,
    out: &mut Vec<u8>,
) -> Outcome {
    write::begin_result(out, message.part(Part::Id).unwrap_or(b"null"));
    let server_info = Some(service.shared.info_json.as_slice());
    result.write(&ResultContext { revision, server_info }, out);
    write::end(out);
    Outcome::Result
}

fn required<'a>(message: &'a Message, part: Part, key: &str) -> Result<Cow<'a, str>, ErrorObject> {
    let missing = || ErrorObject::invalid_params(format!("`{key}` is missing or not a string"));
    message.text(part).ok_or_else(missing)
}

//! Trying the call that a plan asks for, and finding out how its results can be checked.

use std::time::{Duration, Instant};

use mcplane_proto::message::Part;
use mcplane_proto::{Message, Method};
use serde_json::value::RawValue;
use tokio::time::sleep;

use crate::choose::{Call, choose};
use crate::client::{Connection, Peer, Silence, Target, Tool, UNSTAMPED};
use crate::error::Error;
use crate::load::{Check, Expect, Kind, NUMBER, fault, sized};
use crate::plan::Plan;
use crate::text::shorten;

/// Calls that were tried and work.
pub(super) struct Calls {
    pub(super) call: Call,
    pub(super) params: Vec<u8>,
    pub(super) first_call: Duration,
    pub(super) expect: Expect,
    /// An example of a result that differed from the first one.
    pub(super) varies: Option<String>,
    /// All of them, where there are several.
    pub(super) kinds: Vec<Kind>,
}

/// What calls are tried by.
pub(super) struct Trying<'a> {
    pub(super) plan: &'a Plan,
    pub(super) target: &'a Target,
    pub(super) tools: &'a [Tool],
    pub(super) peer: &'a Peer,
}

impl Trying<'_> {
    /// Tries the one call that the plan asks for.
    pub(super) async fn one(
        &self,
        connection: &mut Connection,
        others: &mut [Connection],
    ) -> Result<Calls, Error> {
        let mut call = choose(self.plan, self.tools)?;
        if self.plan.distinct {
            call.args = unstamped(&call.args)?;
        }
        // The report shows a size, and not what is of that size.
        let shown = call.args.clone();
        if self.plan.args.is_some() {
            call.args = filled(&call.args)?;
        }
        let params = self.peer.call(&call.tool, &call.args);
        let began = Instant::now();
        let first = self.validate(connection, &call, &params, None).await?;
        let first_call = began.elapsed();
        let mut expect = self.expect(&first)?;
        let mut varies = None;
        if self.plan.check {
            varies = self.settle(connection, others, &call, &params, &expect).await?;
            if varies.is_some() {
                expect = expect.with(Check::Off);
            }
        }
        let call = Call { args: shown, ..call };
        Ok(Calls { call, params, first_call, expect, varies, kinds: Vec::new() })
    }

    /// What later answers are held against.
    fn expect(&self, first: &Message) -> Result<Expect, Error> {
        let check = if self.plan.check { Check::Equal } else { Check::Off };
        let no_result = || Error::refused("the answer to the call has no id");
        let expect = Expect::learn(first, check).ok_or_else(no_result)?;
        if !self.plan.distinct {
            return Ok(expect);
        }
        let lost = || Error::refused("the result does not say what the arguments did");
        expect.stamped().ok_or_else(lost)
    }

    /// Calls again at once, then after a pause, then once on every other session. Gives an example
    /// of a result that differed from the first one.
    async fn settle(
        &self,
        connection: &mut Connection,
        others: &mut [Connection],
        call: &Call,
        params: &[u8],
        expect: &Expect,
    ) -> Result<Option<String>, Error> {
        let mut varies = None;
        for pause in [Duration::ZERO, self.plan.settle] {
            sleep(pause).await;
            let answer = self.validate(connection, call, params, None).await?;
            varies = varies.or_else(|| fault(&answer, Some(expect)));
        }
        for other in others {
            let answer = self.validate(other, call, params, None).await?;
            varies = varies.or_else(|| fault(&answer, Some(expect)));
        }
        Ok(varies.map(|(_, example)| example))
    }

    /// One real call. A rejected one refuses the run.
    pub(super) async fn validate(
        &self,
        connection: &mut Connection,
        call: &Call,
        params: &[u8],
        expect: Option<&Expect>,
    ) -> Result<Message, Error> {
        let what =
            |why: String| format!("{} {} {why}", call.tool, shorten(call.args.get().as_bytes()));
        let limit = self.plan.timeout;
        let name = Some(call.tool.as_str());
        match connection.wire.request(Method::ToolsCall, params, name, limit).await {
            Ok(answer) => match fault(&answer, expect) {
                None if answer.part(Part::Id).is_some() => Ok(answer),
                None => Err(Error::refused(what("was answered without an id".to_owned()))),
                Some((_, why)) => Err(Error::refused(what(format!("was answered with {why}")))),
            },
            Err(Silence::Timeout) => {
                let why = what(format!("was not answered within {limit:?}"));
                let words = connection.bury().await.map(|words| words.to_string());
                let words = words.unwrap_or_default();
                Err(Error::refused(format!("`{}`: {why}{words}", self.target)))
            }
            Err(Silence::Status(_, text)) => {
                Err(Error::refused(what(format!("was answered with {text}"))))
            }
            Err(silence @ (Silence::Closed | Silence::Broken(_))) => {
                let broken = match silence {
                    Silence::Broken(why) => why,
                    _ => "the server closed its output".to_owned(),
                };
                let why = what(format!("was not answered: {broken}"));
                let words = connection.bury().await.map(|words| words.to_string());
                let what = format!("{why}{}", words.unwrap_or_default());
                Err(Error::unreachable(&self.target.to_string(), &what))
            }
        }
    }
}

/// The arguments with a number that no call has.
fn unstamped(args: &RawValue) -> Result<Box<RawValue>, Error> {
    let args = args.get().replace(NUMBER, &String::from_utf8_lossy(&UNSTAMPED));
    RawValue::from_string(args).map_err(|error| Error::refused(format!("--args: {error}")))
}

/// The arguments with text of the sizes that they ask for.
fn filled(args: &RawValue) -> Result<Box<RawValue>, Error> {
    let wrong = |why: String| Error::refused(format!("--args: {why}"));
    let args = sized(args.get()).map_err(wrong)?;
    RawValue::from_string(args).map_err(|error| wrong(error.to_string()))
}

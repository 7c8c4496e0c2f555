//! Trying each call of a mix, and finding out how its results can be checked.

use std::time::Instant;

use mcplane_proto::Message;
use serde_json::value::RawValue;
use tokio::time::sleep;

use super::calls::{Calls, Trying};
use crate::choose::{Call, choose};
use crate::client::Connection;
use crate::error::Error;
use crate::load::{Check, Expect, Kind, Template, fault, fill, is_numbered};
use crate::plan::Plan;
use crate::record::PerTool;
use crate::results::{Checking, ToolResults};
use crate::stats::Rng;

/// One template, tried once.
struct First {
    template: Template,
    /// The call with marks in place of values, and two calls with values.
    marked: Call,
    calls: [Call; 2],
    expect: Expect,
    check: Checking,
}

impl Trying<'_> {
    /// Tries each kind of call, and each again after a pause and on every other session.
    pub(super) async fn mix(
        &self,
        connection: &mut Connection,
        others: &mut [Connection],
    ) -> Result<Calls, Error> {
        let peer = self.peer;
        let mut random = Rng::new(self.plan.seed);
        let (mut all, mut first_call) = (Vec::new(), None);
        for template in &self.plan.mix {
            let [marked, a, b] = self.calls(template, &mut random)?;
            let began = Instant::now();
            let params = peer.call(&a.tool, &a.args);
            let answer = self.validate(connection, &a, &params, None).await?;
            first_call.get_or_insert_with(|| began.elapsed());
            let (expect, check) = self.learn(template, &answer)?;
            all.push(First { template: template.clone(), marked, calls: [a, b], expect, check });
        }
        if self.plan.check {
            sleep(self.plan.settle).await;
            for first in &mut all {
                self.again(first, connection, others).await?;
            }
        }
        let kind = |first: &First| Kind {
            tool: first.marked.tool.clone(),
            weight: first.template.weight,
            params: peer.call(&first.marked.tool, &first.marked.args),
            sources: first.template.sources.clone(),
            expect: first.expect.clone(),
            check: first.check,
        };
        let kinds: Vec<_> = all.iter().map(kind).collect();
        let first = all.into_iter().next();
        let Some((First { marked, calls: [a, _], expect, template, .. }, first_call)) =
            first.zip(first_call)
        else {
            return Err(Error::refused("the mix has no calls"));
        };
        let params = peer.call(&a.tool, &a.args);
        // The report shows the arguments as they were written.
        let shown = template.args.and_then(|args| RawValue::from_string(args.to_string()).ok());
        let call = Call { args: shown.unwrap_or(a.args), ..marked };
        Ok(Calls { call, params, first_call, expect, varies: None, kinds })
    }

    /// The call with marks, and two with values.
    fn calls(&self, template: &Template, random: &mut Rng) -> Result<[Call; 3], Error> {
        let args = |text: String| {
            let wrong = |error| Error::refused(format!("{}: {error}", template.tool));
            RawValue::from_string(text).map_err(wrong)
        };
        let given = match template.args {
            Some(_) => Some(args(template.text().to_owned())?),
            None => None,
        };
        let plan = Plan { tool: Some(template.tool.clone()), args: given, ..self.plan.clone() };
        let marked = choose(&plan, self.tools)?;
        let mut with_values = || {
            let text = fill(marked.args.get(), &template.sources, random);
            args(text).map(|args| Call { args, ..marked.clone() })
        };
        let (a, b) = (with_values()?, with_values()?);
        Ok([marked, a, b])
    }

    fn learn(&self, template: &Template, answer: &Message) -> Result<(Expect, Checking), Error> {
        let check = if self.plan.check && template.check { Check::Equal } else { Check::Off };
        let no_result = || Error::refused("the answer to the call has no id");
        let expect = Expect::learn(answer, check).ok_or_else(no_result)?;
        if check == Check::Off {
            return Ok((expect, Checking::Off));
        }
        let stamped = is_numbered(template.args.as_ref()).then(|| expect.clone().stamped());
        Ok(match stamped.flatten() {
            Some(stamped) => (stamped, Checking::Stamped),
            None => (expect, Checking::Equal),
        })
    }

    /// Calls with the same values and with others, and on every other session. What differs then
    /// cannot be held against the first result.
    async fn again(
        &self,
        first: &mut First,
        connection: &mut Connection,
        others: &mut [Connection],
    ) -> Result<(), Error> {
        let peer = self.peer;
        let mut varies = false;
        for call in &first.calls {
            let params = peer.call(&call.tool, &call.args);
            let answer = self.validate(connection, call, &params, None).await?;
            varies |= fault(&answer, Some(&first.expect)).is_some();
        }
        let [a, _] = &first.calls;
        let params = peer.call(&a.tool, &a.args);
        for other in others {
            let answer = self.validate(other, a, &params, None).await?;
            varies |= fault(&answer, Some(&first.expect)).is_some();
        }
        if varies && first.check != Checking::Off {
            first.expect = first.expect.clone().with(Check::Off);
            first.check = Checking::Varies;
        }
        Ok(())
    }
}

/// What the reader should know about the checks of a mix.
pub(super) fn notes(kinds: &[Kind]) -> Vec<String> {
    let varies: Vec<_> = kinds
        .iter()
        .filter(|kind| kind.check == Checking::Varies)
        .map(|kind| kind.tool.as_str())
        .collect();
    let mut notes = Vec::new();
    if !kinds.is_empty() {
        notes.push("A mix has no floor: the null responder has one answer.".to_owned());
    }
    if !varies.is_empty() {
        notes.push(format!(
            "Results of {} differ with their arguments or by themselves, so that only ids and errors \
             are checked there.",
            varies.join(", ")
        ));
    }
    notes
}

impl ToolResults {
    /// One for each kind of call, in the order of the plan.
    pub(crate) fn all(kinds: &[Kind], seen: &[PerTool]) -> Vec<Self> {
        let none = PerTool::default();
        let of = |(index, kind): (usize, &Kind)| {
            let seen = seen.get(index).unwrap_or(&none);
            Self {
                name: kind.tool.clone(),
                weight: kind.weight,
                check: kind.check,
                calls_sent: seen.sent,
                calls_ok: seen.latencies.count(),
                errors: seen.errors,
                latency: seen.latencies.summary(),
                latency_histogram: seen.latencies.encode(),
            }
        };
        kinds.iter().enumerate().map(of).collect()
    }
}

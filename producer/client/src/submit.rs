//! How a program submits: one transaction, or many, through the groups that all callers share.
//!
//! Promises an answer for each submission, in their order. Fails for each of them alone.

use std::time::Duration;

use observe::{Span, SpanKind};

use crate::client::Client;
use crate::error::{Effect, Error, Server};
use crate::group::{Answered, GROUP_MAX, SMALL_MAX};
use crate::rules::Rules;
use crate::submission::{Order, Receipt, Submission};

impl Client {
    /// Submits a transaction: when this returns, it is durable, and published unless the receipt
    /// says otherwise. Submitting the same id with the same content again changes nothing. Dropping
    /// the future does not take the transaction back.
    ///
    /// # Errors
    /// [`Error::Invalid`], [`Error::Conflict`] and [`Error::Refused`] are about this transaction.
    /// [`Error::Unavailable`] leaves open whether it was submitted: submit a clone again.
    pub async fn submit(&self, submission: Submission) -> Result<Receipt, Error> {
        let ids = self.known_rules().await?;
        let mut answers = self.groups().put(vec![self.entry(submission, &ids)?], None).await;
        answer(answers.pop().expect("one for the submission")).await
    }

    /// Submits transactions; a result for each, in their order. A failure of one does not affect
    /// the others. See [`Client::submit`].
    pub async fn submit_all(
        &self,
        submissions: impl IntoIterator<Item = Submission>,
    ) -> Vec<Result<Receipt, Error>> {
        let ids = match self.known_rules().await {
            Ok(ids) => ids,
            Err(error) => return submissions.into_iter().map(|_| Err(error.clone())).collect(),
        };
        let (mut answers, mut errors) = (Vec::new(), Vec::new());
        let (mut part, mut call) = (Vec::new(), None);
        for submission in submissions {
            match self.entry(submission, &ids) {
                Ok(entry) => part.push(entry),
                Err(error) => errors.push((answers.len() + errors.len() + part.len(), error)),
            }
            if part.len() > SMALL_MAX && call.is_none() {
                call = Some(self.groups().next_call());
            }
            if part.len() == GROUP_MAX {
                answers.extend(self.groups().put(std::mem::take(&mut part), call).await);
            }
        }
        answers.extend(self.groups().put(part, call).await);
        in_order(answers, errors).await
    }

    pub(crate) fn entry(
        &self,
        mut submission: Submission,
        ids: &Rules,
    ) -> Result<(Order, Option<Span>), Error> {
        let trace = submission.trace.take();
        let has_new_id = submission.has_new_id;
        let mut order = submission.into_order()?;
        if has_new_id {
            order.id = ids.made(order.id.to_string())?.into();
        }
        let order = ids.fit(order)?;
        let tracing = &self.config().tracing;
        let span = tracing.begin("submit", SpanKind::Producer, trace.as_deref());
        if let Some(span) = &span {
            span.set("messaging.system", "rabbitmq");
            span.set("messaging.operation.type", "send");
            span.set("tandem.transaction.id", order.id.to_string());
        }
        Ok((order, span))
    }
}

/// The answers, and between them the errors of submissions that were never put.
async fn in_order(
    answers: Vec<Answered>,
    errors: Vec<(usize, Error)>,
) -> Vec<Result<Receipt, Error>> {
    let mut results = Vec::with_capacity(answers.len() + errors.len());
    let mut errors = errors.into_iter().peekable();
    let mut answers = answers.into_iter();
    loop {
        if let Some((_, error)) = errors.next_if(|(at, _)| *at == results.len()) {
            results.push(Err(error));
        } else if let Some(answered) = answers.next() {
            results.push(answer(answered).await);
        } else {
            return results;
        }
    }
}

async fn answer(answered: Answered) -> Result<Receipt, Error> {
    answered.await.unwrap_or_else(|_| {
        // The task that would have answered has panicked, or its runtime has ended.
        let problem = "nobody is there any more to submit it".to_owned();
        let (server, after, effect) = (Server::MongoDb, Duration::ZERO, Effect::Unknown);
        Err(Error::Unavailable { server, problem, after, effect })
    })
}

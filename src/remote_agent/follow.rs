//! Listening to a stream until the task is finished or waits for its caller.

use serde_json::Value;

use crate::peer::{End, Event, EventStream, Fault, Step};

use super::collect::Kind;
use super::error::{Reason, ToolError};
use super::session::Session;

/// Listens to `stream`. Whether it is over is told by the task's state, or, where the peer answered with messages alone,
/// by the end of the body. A first event equal to `known` has been told already.
///
/// # Errors
/// When the stream ends while the task goes on, with everything that was collected.
pub(super) async fn follow(
    session: &mut Session<'_>,
    mut stream: Box<dyn EventStream>,
    mut known: Option<Value>,
) -> Result<(), ToolError> {
    loop {
        let settled = session.said.is_settled();
        let short = settled.then(|| session.bounds.shorter(session.pace().settle));
        let bounds = short.as_ref().unwrap_or(&session.bounds);
        let step = match bounds.run(stream.next()).await {
            Ok(step) => step,
            Err(error) if settled && error.reason == Reason::Timeout => return Ok(()),
            Err(error) => return Err(session.interrupted(error)),
        };
        match step {
            Step::Event(event, bytes) => {
                if known.take().is_some_and(|known| known == *event.json()) {
                    continue;
                }
                let last = is_last(&event);
                if let Err(error) = session.hear(event, bytes, true) {
                    return Err(session.interrupted(error));
                }
                if last {
                    return Ok(());
                }
            }
            Step::End(end) => return over(session, end),
        }
    }
}

/// The peer marks the event as its last, and the state bears it out.
fn is_last(event: &Event) -> bool {
    match event {
        Event::Status(update) => update.is_final() && update.state().is_settled(),
        _ => false,
    }
}

/// What the end of the bytes means, given what was said before.
fn over(session: &mut Session<'_>, end: End) -> Result<(), ToolError> {
    let messages_only = session.said.kind == Some(Kind::Message);
    let error = match end {
        _ if session.said.is_settled() => return Ok(()),
        End::Answer => return Ok(()),
        End::Clean if messages_only => return Ok(()),
        End::Clean if session.said.count() == 0 => ToolError::new(
            Reason::ConnectionCut,
            "the stream ended before any event came",
        ),
        End::Clean => ToolError::new(
            Reason::StreamCut,
            "the stream ended while the task was still under way",
        ),
        End::Broken(error) if error.fault == Fault::Cut && session.said.count() > 0 => {
            ToolError::new(Reason::StreamCut, format!("the stream broke off: {error}"))
        }
        End::Broken(error) => error.into(),
    };
    Err(session.interrupted(error))
}

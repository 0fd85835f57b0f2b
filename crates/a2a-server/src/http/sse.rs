//! Writes streams as server-sent events (1.0 §9.4.2, §11.7; 0.3 §3.3).

use std::convert::Infallible;
use std::time::Duration;

use a2a::v1_0::{StreamResponse, TaskStatus, TaskStatusUpdateEvent};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, StreamExt, future, stream};
use http::HeaderValue;
use http::header::CACHE_CONTROL;
use http::request::Parts;
use serde::Serialize;

use super::access_control::RequestContext;
use super::envelope::{Id, Success};
use super::{clients, error};
use crate::call_context::Version;
use crate::service::Updates;
use a2a::A2aError;
use a2a::Dialect;
use a2a::v0_3::{self, is_terminal_or_interrupted};

/// Which binding a stream is written for.
#[derive(Debug)]
pub(crate) enum Binding {
    /// Every event is the answer to the request of this id.
    Rpc(Id),
    /// Every event stands for itself.
    Rest,
}

/// Ends the updates with an error once the token of the request is not valid any more.
pub(crate) fn while_valid(updates: Updates, parts: &Parts) -> Updates {
    let context = RequestContext::get(&parts.extensions);
    let Ok(Ok(principal)) = context.map(|context| &context.principal) else {
        return updates;
    };
    let revoked = principal.revoked.clone();
    let valid = updates.take_until(revoked.clone().cancelled_owned());
    let last = stream::once(async move {
        let is_revoked = revoked.is_cancelled();
        is_revoked.then(|| Err(clients::revoked()))
    });
    valid.chain(last.filter_map(future::ready)).boxed()
}

/// The stream as an answer. Nothing is read from `updates` before the client has taken what came before.
pub(crate) fn response(
    updates: Updates,
    dialect: Dialect,
    binding: Binding,
    keep_alive: Duration,
) -> Response {
    let events = events(updates, dialect, binding);
    let alive = KeepAlive::new().interval(keep_alive).text("keep-alive");
    let mut response = Sse::new(events).keep_alive(alive).into_response();
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Reverse proxies would hold events back.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

struct State {
    updates: Option<Updates>,
    /// What is told before the next update.
    next: Option<StreamResponse>,
    first: bool,
    dialect: Dialect,
    binding: Binding,
}

fn events(
    updates: Updates,
    dialect: Dialect,
    binding: Binding,
) -> impl Stream<Item = Result<Event, Infallible>> {
    let state = State {
        updates: Some(updates),
        next: None,
        first: true,
        dialect,
        binding,
    };
    stream::unfold(state, |mut state| async move {
        if let Some(next) = state.next.take() {
            let event = event(&next, state.dialect, &state.binding);
            return Some((Ok(event), state));
        }
        let told = state.updates.as_mut()?.next().await?;
        let event = match &told {
            Ok(update) => event(update, state.dialect, &state.binding),
            Err(refusal) => failed(refusal, state.dialect, &state.binding),
        };
        if told
            .as_ref()
            .map_or(true, |update| ends(update, state.first))
        {
            state.updates = None;
            state.next = mark(told.ok(), state.dialect);
        }
        state.first = false;
        Some((Ok(event), state))
    })
}

/// Whether nothing comes after it: a stream ends where its task does, or where the task waits for its client (1.0 §3.1.2). A
/// task that waits is where the stream of an answer to it begins, though.
fn ends(update: &StreamResponse, first: bool) -> bool {
    match update {
        StreamResponse::Message(_) => true,
        StreamResponse::StatusUpdate(event) => is_terminal_or_interrupted(&event.status.state),
        StreamResponse::Task(task) => {
            task.status.state.is_terminal()
                || (!first && is_terminal_or_interrupted(&task.status.state))
        }
        StreamResponse::ArtifactUpdate(_) => false,
    }
}

/// 0.3 knows the end of a stream by an event that says `final`. Where a whole task was last there has been none.
fn mark(last: Option<StreamResponse>, dialect: Dialect) -> Option<StreamResponse> {
    match (last, dialect) {
        (Some(StreamResponse::Task(task)), Dialect::V0_3(_)) => {
            Some(StreamResponse::StatusUpdate(TaskStatusUpdateEvent {
                task_id: task.id,
                context_id: task.context_id,
                status: TaskStatus {
                    state: task.status.state,
                    // It stands in the task; clients would take it for another one.
                    message: None,
                    timestamp: task.status.timestamp,
                },
                metadata: None,
            }))
        }
        _ => None,
    }
}

fn event(update: &StreamResponse, dialect: Dialect, binding: &Binding) -> Event {
    match dialect {
        Dialect::V1_0 => wrapped(update, binding),
        Dialect::V0_3(dialect) => wrapped(&v0_3::written(update, dialect), binding),
    }
}

fn wrapped<T: Serialize>(result: &T, binding: &Binding) -> Event {
    match binding {
        Binding::Rpc(id) => data(Event::default(), &Success::new(id, result)),
        Binding::Rest => data(Event::default(), result),
    }
}

fn failed(refusal: &A2aError, dialect: Dialect, binding: &Binding) -> Event {
    match (binding, dialect) {
        (Binding::Rpc(id), _) => data(Event::default(), &error::rpc_body(id, refusal)),
        // What the official clients know an error in a stream without envelopes by.
        (Binding::Rest, dialect) => {
            let version = match dialect {
                Dialect::V1_0 => Version::V1_0,
                Dialect::V0_3(_) => Version::V0_3,
            };
            let body = error::rest_event(version, refusal);
            data(Event::default().event("error"), &body)
        }
    }
}

fn data(event: Event, value: &impl Serialize) -> Event {
    // What is written here are maps with strings for keys, which JSON has.
    event.json_data(value).unwrap_or_default()
}

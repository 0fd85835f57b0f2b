//! Streams of server-sent events (A2A 1.0 §9.4.2 and §11.7, A2A 0.3 §3.3).

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
use crate::service::TaskUpdates;
use a2a::A2aError;
use a2a::Dialect;
use a2a::v0_3::{self, is_terminal_or_interrupted};

/// The comment at the end of a stream whose task continues, for example because the server stops. Clients ignore
/// comments; people who read the stream do not.
const TASK_CONTINUES: &str = "the task has not ended; subscribe to it again";

/// The binding of a response.
#[derive(Debug)]
pub(crate) enum Binding {
    /// JSON-RPC: every event contains the id of the request.
    Rpc(Id),
    /// HTTP+JSON: events have no envelope.
    Rest,
}

/// Ends the updates with an error when the token of the request is revoked.
pub(crate) fn until_revoked(updates: TaskUpdates, parts: &Parts) -> TaskUpdates {
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

/// Returns a streaming response. It polls `updates` only after the client has received the previous event.
pub(crate) fn response(
    updates: TaskUpdates,
    dialect: Dialect,
    binding: Binding,
    keep_alive: Duration,
) -> Response {
    let events = events(updates, dialect, binding);
    let alive = KeepAlive::new().interval(keep_alive).text("keep-alive");
    with_headers(Sse::new(events).keep_alive(alive).into_response())
}

/// Returns a stream of one error, for a client that accepts no other response.
pub(crate) fn failed(error: &A2aError, id: &Id) -> Response {
    let event = data(Event::default(), &error::rpc_body(id, error));
    with_headers(Sse::new(stream::iter([Ok::<_, Infallible>(event)])).into_response())
}

fn with_headers(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Without this header, some reverse proxies buffer the events.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

struct State {
    updates: Option<TaskUpdates>,
    /// An update that the stream sends before it polls further ones.
    next: Option<StreamResponse>,
    first: bool,
    dialect: Dialect,
    binding: Binding,
}

fn events(
    updates: TaskUpdates,
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
        let Some(update) = state.updates.as_mut()?.next().await else {
            state.updates = None;
            return Some((Ok(Event::default().comment(TASK_CONTINUES)), state));
        };
        let event = match &update {
            Ok(update) => event(update, state.dialect, &state.binding),
            Err(error) => error_event(error, state.dialect, &state.binding),
        };
        if update
            .as_ref()
            .map_or(true, |update| is_last(update, state.first))
        {
            state.updates = None;
            state.next = final_event(update.ok(), state.dialect);
        }
        state.first = false;
        Some((Ok(event), state))
    })
}

/// Returns whether a stream ends after this update, because the task is terminal or interrupted (A2A 1.0 §3.1.2). An
/// interrupted task as the first event does not end the stream, because the client's answer continues the task.
fn is_last(update: &StreamResponse, first: bool) -> bool {
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

/// Returns the event with `final` that ends a stream of 0.3, if the last update was a whole task.
fn final_event(last: Option<StreamResponse>, dialect: Dialect) -> Option<StreamResponse> {
    match (last, dialect) {
        (Some(StreamResponse::Task(task)), Dialect::V0_3(_)) => {
            Some(StreamResponse::StatusUpdate(TaskStatusUpdateEvent {
                task_id: task.id,
                context_id: task.context_id,
                status: TaskStatus {
                    state: task.status.state,
                    // The task has already contained the message, and clients would read it as a second message.
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
        Dialect::V1_0 => encode(update, binding),
        Dialect::V0_3(dialect) => encode(&v0_3::as_v0_3(update, dialect), binding),
    }
}

fn encode<T: Serialize>(result: &T, binding: &Binding) -> Event {
    match binding {
        Binding::Rpc(id) => data(Event::default(), &Success::new(id, result)),
        Binding::Rest => data(Event::default(), result),
    }
}

fn error_event(error: &A2aError, dialect: Dialect, binding: &Binding) -> Event {
    match (binding, dialect) {
        (Binding::Rpc(id), _) => data(Event::default(), &error::rpc_body(id, error)),
        // In streams without envelopes, the official clients recognize an error by this event name.
        (Binding::Rest, dialect) => {
            let body = error::rest_event(dialect.version(), error);
            data(Event::default().event("error"), &body)
        }
    }
}

fn data(event: Event, value: &impl Serialize) -> Event {
    // The types serialize to maps with string keys, so serialization does not fail.
    event.json_data(value).unwrap_or_default()
}

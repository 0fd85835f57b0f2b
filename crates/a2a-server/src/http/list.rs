//! Streams a page of tasks, with one task in memory at a time.

use a2a::v1_0::Task;
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use serde_json::{Map, Value};

use super::sse::Binding;
use crate::service::TaskPage;
use a2a::A2aError;
use a2a::Dialect;
use a2a::v0_3::as_v0_3;

/// The next part of the body.
enum Next {
    /// The JSON before the tasks.
    Head,
    /// A task; `true` for the first one.
    Task(bool),
    /// The end of the body.
    End,
}

/// Returns a response that loads each task after the client has received the one before. If the store fails, the server
/// closes the connection, so that the client detects the incomplete page.
pub(crate) fn response(
    page: TaskPage,
    dialect: Dialect,
    binding: Binding,
    media_type: &'static str,
) -> Response {
    let state = (page, binding, Next::Head);
    let body = stream::unfold(state, move |(mut page, binding, next)| async move {
        let (text, next) = match next {
            Next::Head => (head(&binding), Next::Task(true)),
            Next::Task(first) => match page.next(|task| json(task, dialect)).await {
                Ok(Some(task)) if first => (task, Next::Task(false)),
                Ok(Some(task)) => ([b",".as_slice(), &task].concat(), Next::Task(false)),
                Ok(None) => (tail(&page, dialect, &binding), Next::End),
                Err(error) => return Some((Err(error), (page, binding, Next::End))),
            },
            Next::End => return None,
        };
        Some((Ok::<_, A2aError>(Bytes::from(text)), (page, binding, next)))
    });
    let mut response = Response::new(Body::from_stream(body));
    let media_type = HeaderValue::from_static(media_type);
    response.headers_mut().insert(CONTENT_TYPE, media_type);
    response
}

fn head(binding: &Binding) -> Vec<u8> {
    let mut head = Vec::new();
    if let Binding::Rpc(id) = binding {
        head.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
        // An id is raw JSON.
        head.extend(serde_json::to_vec(id).unwrap_or_default());
        head.extend_from_slice(br#","result":"#);
    }
    head.extend_from_slice(br#"{"tasks":["#);
    head
}

fn json(task: &Task, dialect: Dialect) -> Vec<u8> {
    // The types serialize to maps with string keys, so serialization does not fail.
    match dialect {
        Dialect::V1_0 => serde_json::to_vec(task),
        Dialect::V0_3(dialect) => serde_json::to_vec(&as_v0_3(task, dialect)),
    }
    .unwrap_or_default()
}

/// Returns the JSON after the tasks. 0.3 lists tasks only over HTTP+JSON and does not define the response, so it has
/// the format of 0.3's list of push notification configurations.
fn tail(page: &TaskPage, dialect: Dialect, binding: &Binding) -> Vec<u8> {
    let mut fields = Map::from_iter([("nextPageToken".to_owned(), page.next_page_token().into())]);
    if matches!(dialect, Dialect::V1_0) {
        fields.insert("pageSize".to_owned(), page.page_size().into());
        fields.insert("totalSize".to_owned(), page.total_size().into());
    }
    let fields = Value::Object(fields).to_string();
    let end = match binding {
        Binding::Rpc(_) => "}",
        Binding::Rest => "",
    };
    format!("],{}{end}", fields.trim_start_matches('{')).into_bytes()
}

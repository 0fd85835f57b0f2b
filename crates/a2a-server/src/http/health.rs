//! Whether the server is there and can work, and what it counts. None of it tells what tasks are about.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::app::Operator;
use crate::metrics::CONTENT_TYPE;

/// It is there.
pub(super) async fn alive() -> Response {
    Json(json!({"status": "ok"})).into_response()
}

/// The executor and the store answer; else 503, and why not.
pub(super) async fn ready(State(operator): State<Arc<Operator>>) -> Response {
    match operator.service.ready().await {
        Ok(()) => Json(json!({"status": "ok"})).into_response(),
        Err(why) => {
            let body = Json(json!({"status": "unavailable", "why": why}));
            (StatusCode::SERVICE_UNAVAILABLE, body).into_response()
        }
    }
}

/// What the server counts, as Prometheus reads it.
pub(super) async fn metrics(State(operator): State<Arc<Operator>>) -> Response {
    let kind = [(header::CONTENT_TYPE, CONTENT_TYPE)];
    (kind, operator.service.metrics().text()).into_response()
}

//! The HTTP API of the tool for Node.js, whose server is the host's.

use napi_derive::napi;

use crate::http_api::{ApiError, ApiRequest, ApiResponse, Route};

/// A request or a response of the HTTP API. A request has the first three members, a response the rest.
#[napi(object)]
pub struct ApiMessage {
    pub action: Option<String>,
    pub request: Option<String>,
    /// The time after which the host cancels the call, in milliseconds.
    pub expires_after: Option<u32>,
    pub status: Option<u32>,
    pub body: Option<String>,
    pub reason: Option<String>,
    pub retryable: Option<bool>,
}

impl From<ApiResponse> for ApiMessage {
    fn from(response: ApiResponse) -> Self {
        Self {
            action: None,
            request: None,
            expires_after: None,
            status: Some(response.status.into()),
            body: Some(response.body),
            reason: response.reason.map(str::to_owned),
            retryable: response.retryable,
        }
    }
}

/// Parses a body for the route `read` or `write`. Returns the request for `RemoteAgent.execute`, or the response to a
/// body that is none.
#[napi(catch_unwind)]
#[must_use]
pub fn api_request(route: String, body: String) -> Option<ApiMessage> {
    let route = Route::from_name(&route)?;
    let timeout = route.default_timeout();
    Some(match ApiRequest::parse(route, body.as_bytes(), timeout) {
        Ok(parsed) => ApiMessage {
            action: Some(parsed.action.to_owned()),
            request: Some(parsed.request.to_string()),
            expires_after: u32::try_from(parsed.expires_after.as_millis()).ok(),
            status: None,
            body: None,
            reason: None,
            retryable: None,
        },
        Err(error) => ApiResponse::from(&error).into(),
    })
}

/// Returns the response with an envelope. `has_expired` says that the call was cancelled at the time limit of the route.
#[napi(catch_unwind)]
#[must_use]
pub fn api_response(action: String, envelope_json: String, has_expired: bool) -> ApiMessage {
    ApiResponse::new(&action, &envelope_json, has_expired).into()
}

/// Returns the response to a request that the host does not allow; `message` is for the caller.
#[napi(catch_unwind)]
#[must_use]
pub fn api_refusal(message: String) -> ApiMessage {
    ApiResponse::from(&ApiError::unavailable(message)).into()
}

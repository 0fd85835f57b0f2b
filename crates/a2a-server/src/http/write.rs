//! Serializes answers for each version.

use a2a::v1_0::TaskPushNotificationConfig;
use axum::body::Body;
use axum::response::Response;
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use serde::{Serialize, Serializer};

use super::operations::Answer;
use a2a::Dialect;
use a2a::v0_3::as_v0_3;

/// An answer of one JSON value in the format of a dialect. The answer to a deletion is `null`.
pub(crate) struct DialectAnswer<'a>(pub(crate) &'a Answer, pub(crate) Dialect);

impl Serialize for DialectAnswer<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let dialect = match self.1 {
            Dialect::V1_0 => return v1(self.0, serializer),
            Dialect::V0_3(dialect) => dialect,
        };
        match self.0 {
            Answer::Sent(sent) => as_v0_3(sent, dialect).serialize(serializer),
            Answer::Task(task) => as_v0_3(task, dialect).serialize(serializer),
            Answer::Push(config) => as_v0_3(config, dialect).serialize(serializer),
            Answer::Pushes(configs) => as_v0_3(configs.as_slice(), dialect).serialize(serializer),
            Answer::Card(card) => card.serialize(serializer),
            Answer::Deleted | Answer::Tasks(_) | Answer::Updates(_) => serializer.serialize_unit(),
        }
    }
}

fn v1<S: Serializer>(answer: &Answer, serializer: S) -> Result<S::Ok, S::Error> {
    match answer {
        Answer::Sent(sent) => sent.serialize(serializer),
        Answer::Task(task) => task.serialize(serializer),
        Answer::Push(config) => config.serialize(serializer),
        Answer::Pushes(configs) => Configs {
            configs,
            next_page_token: "",
        }
        .serialize(serializer),
        Answer::Card(card) => card.serialize(serializer),
        Answer::Deleted | Answer::Tasks(_) | Answer::Updates(_) => serializer.serialize_unit(),
    }
}

/// All push notification configurations of a task on one page. The official type omits an empty list, which some
/// clients reject.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Configs<'a> {
    configs: &'a [TaskPushNotificationConfig],
    next_page_token: &'static str,
}

/// Returns a JSON response.
pub(crate) fn json(media_type: &'static str, value: &impl Serialize) -> Response {
    // The types serialize to maps with string keys, so serialization does not fail.
    let mut response = Response::new(Body::from(serde_json::to_vec(value).unwrap_or_default()));
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

//! Messages of JSON-RPC as they arrive, over both transports.

use std::borrow::Cow;

use base::json::{self, JsonErrorKind, Limits};
use base::text::first_chars;
use rmcp::model::{
    CallToolRequestParams, CancelTaskParams, ClientJsonRpcMessage, ClientRequest, CustomRequest,
    ErrorCode, ErrorData, GetTaskParams, InitializeRequestParams, PaginatedRequestParams,
    ServerJsonRpcMessage, UpdateTaskParams,
};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// What a message may contain. The limit of memory holds before the message is parsed, and is far above what the tool
/// can pass on.
pub(crate) const JSON_LIMITS: Limits = Limits {
    depth: 64,
    values: 200_000,
    memory: 8 << 20,
};

/// The maximum length of an id as JSON, in bytes. The answer repeats it.
const MAX_ID_BYTES: usize = 1024;

/// The maximum length of the path of an invalid parameter in an error, in characters.
const MAX_PATH_CHARS: usize = 100;

/// The methods of requests that this server has, and `initialize` of earlier versions. The library takes one with invalid
/// parameters for an unknown method.
const METHODS: [&str; 8] = [
    "initialize",
    "ping",
    "server/discover",
    "tasks/cancel",
    "tasks/get",
    "tasks/update",
    "tools/call",
    "tools/list",
];

/// How the text of an error for a method that the server does not have begins.
const UNKNOWN_METHOD: &str = "unknown method";

/// A message that is refused unread.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// The id as JSON; `null` if it is unreadable.
    id: String,
    code: ErrorCode,
    message: String,
}

impl Refusal {
    pub(crate) fn new(id: Option<&RawValue>, code: ErrorCode, message: impl Into<String>) -> Self {
        let id = id.map_or("null", RawValue::get).to_owned();
        let message = message.into();
        Self { id, code, message }
    }

    /// Returns the answer as JSON.
    pub(crate) fn to_json(&self) -> String {
        let error = json!({"code": self.code.0, "message": self.message});
        format!(r#"{{"jsonrpc":"2.0","id":{},"error":{error}}}"#, self.id)
    }
}

/// The members of a message that its kind depends on. Parsing them creates no values.
#[derive(Deserialize)]
pub(crate) struct Head<'a> {
    #[serde(borrow)]
    jsonrpc: Option<&'a RawValue>,
    /// Present also for `null`.
    #[serde(borrow, default, deserialize_with = "json::present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "json::present")]
    method: Option<&'a RawValue>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    result: Option<IgnoredAny>,
    error: Option<IgnoredAny>,
}

impl<'a> Head<'a> {
    /// Checks a message, and parses its head.
    ///
    /// # Errors
    /// The text is not a message of JSON-RPC.
    pub(crate) fn parse(text: &'a str) -> Result<Self, Refusal> {
        let invalid = |message: &str| Refusal::new(None, ErrorCode::INVALID_REQUEST, message);
        if !text.trim_start().starts_with('{') {
            let value: Result<IgnoredAny, _> = json::from_str(text, Limits::NONE);
            value.map_err(|error| not_json(&error))?;
            return Err(match text.trim_start().starts_with('[') {
                true => invalid("batches are not supported; send one message at a time"),
                false => invalid("the message is not an object of JSON-RPC"),
            });
        }
        let head: Head<'a> = match serde_json::from_str(text) {
            Ok(head) => head,
            Err(error) if error.is_data() => {
                return Err(invalid("the message has a member twice"));
            }
            Err(_) => {
                let value: Result<IgnoredAny, _> = json::from_str(text, Limits::NONE);
                return Err(value.err().map_or_else(
                    || invalid("the message is not JSON-RPC"),
                    |error| not_json(&error),
                ));
            }
        };
        let id = head.id.filter(|id| may_repeat(id));
        let invalid = |message: &str| Refusal::new(id, ErrorCode::INVALID_REQUEST, message);
        if head.jsonrpc.map(RawValue::get) != Some("\"2.0\"") {
            return Err(invalid("`jsonrpc` must be \"2.0\""));
        }
        if let Some(id) = head.id.filter(|id| !is_id(id)) {
            let too_long =
                format!("`id` has more than {MAX_ID_BYTES} bytes, and no answer repeats it");
            return Err(match id.get().len() > MAX_ID_BYTES {
                true => invalid(&too_long),
                false => invalid("`id` must be a string or an integer"),
            });
        }
        match head.method {
            Some(method) if !method.get().starts_with('"') => {
                Err(invalid("`method` must be a string"))
            }
            None if head.id.is_none() || head.result.is_none() == head.error.is_none() => {
                Err(invalid("the message has neither `method` nor a result"))
            }
            _ => Ok(head),
        }
    }

    /// Returns the refusal of this message.
    pub(crate) fn refuse(&self, code: ErrorCode, message: impl Into<String>) -> Refusal {
        Refusal::new(self.id, code, message)
    }

    /// Checks that the parameters of a request or notification are an object. The library parses no others.
    ///
    /// # Errors
    /// They are not.
    pub(crate) fn check_params(&self) -> Result<(), Refusal> {
        match (self.method, self.params) {
            (Some(method), Some(params)) if !params.get().starts_with('{') => {
                let method: String = serde_json::from_str(method.get()).unwrap_or_default();
                // An array or a text is not parsed: an empty array stands for all that is no object.
                let params = Value::Array(Vec::new());
                let error = unreadable(&CustomRequest::new(method, Some(params)));
                Err(self.refuse(error.code, error.message))
            }
            _ => Ok(()),
        }
    }

    /// Returns the method of a request that the server does not have.
    pub(crate) fn unknown_method(&self) -> Option<String> {
        self.id?;
        let method: String = serde_json::from_str(self.method?.get()).ok()?;
        (!METHODS.contains(&&*method)).then_some(method)
    }

    /// Returns whether the message calls the tool.
    pub(crate) fn is_call(&self) -> bool {
        let method = self.method.map_or("", RawValue::get);
        method.starts_with("\"tools/call") || method.starts_with("\"tasks/")
    }

    /// Parses the whole message. Returns `None` for a notification of an unknown kind, which a server ignores.
    ///
    /// # Errors
    /// The method is unknown, or its parameters are invalid.
    pub(crate) fn message(&self, text: &str) -> Result<Option<ClientJsonRpcMessage>, Refusal> {
        if self.id.is_some() {
            self.check_params()?;
        }
        match serde_json::from_str(text) {
            Ok(ClientJsonRpcMessage::Request(request)) => {
                if let ClientRequest::CustomRequest(custom) = &request.request {
                    let error = unreadable(custom);
                    return Err(self.refuse(error.code, error.message));
                }
                Ok(Some(ClientJsonRpcMessage::Request(request)))
            }
            Ok(message) => Ok(Some(message)),
            Err(_) if self.method.is_some() && self.id.is_none() => Ok(None),
            Err(_) => Err(self.refuse(ErrorCode::INVALID_REQUEST, "the message is not one of MCP")),
        }
    }
}

/// Checks the limits of a message, and returns its text.
///
/// # Errors
/// The message exceeds a limit, or is not text.
pub(crate) fn text(bytes: &[u8]) -> Result<Cow<'_, str>, Refusal> {
    json::check(bytes, JSON_LIMITS).map_err(|error| {
        let message = format!("cannot read the message: {error}");
        Refusal::new(None, ErrorCode::INVALID_REQUEST, message)
    })?;
    json::text(bytes).map_err(|error| not_json(&error))
}

/// Returns the error of a request that the library could not read.
pub(crate) fn unreadable(request: &CustomRequest) -> ErrorData {
    if METHODS.contains(&&*request.method) {
        let fault = parameter_fault(&request.method, request.params.as_ref());
        let fault = fault.map_or_else(String::new, |fault| format!(": {fault}"));
        let message = format!("the parameters of `{}` are invalid{fault}", request.method);
        return ErrorData::invalid_params(message, None);
    }
    unknown_method(&request.method)
}

/// Returns which parameter the library cannot read, and what it must be. The value may be a secret, so it is never quoted.
fn parameter_fault(method: &str, params: Option<&Value>) -> Option<String> {
    let Some(params) = params else {
        return Some("they are missing".to_owned());
    };
    if !params.is_object() {
        return Some("they must be an object".to_owned());
    }
    let fault = match method {
        "initialize" => fault_of::<InitializeRequestParams>,
        "tasks/cancel" => fault_of::<CancelTaskParams>,
        "tasks/get" => fault_of::<GetTaskParams>,
        "tasks/update" => fault_of::<UpdateTaskParams>,
        "tools/call" => fault_of::<CallToolRequestParams>,
        "tools/list" => fault_of::<PaginatedRequestParams>,
        _ => return None,
    };
    fault(params)
}

fn fault_of<T: DeserializeOwned>(params: &Value) -> Option<String> {
    let error = serde_path_to_error::deserialize::<_, T>(params).err()?;
    let path = error.path().to_string();
    let path = path.trim_matches('.');
    let reason = error.inner().to_string();
    let missing = reason
        .strip_prefix("missing field `")
        .and_then(|rest| rest.strip_suffix('`'));
    if let Some(missing) = missing {
        let path = match path {
            "" => missing.to_owned(),
            path => format!("{path}.{missing}"),
        };
        return Some(format!(
            "`{}` is missing",
            first_chars(&path, MAX_PATH_CHARS)
        ));
    }
    if path.is_empty() {
        return None;
    }
    // serde quotes the value before this mark, and the type after it.
    let expected = reason
        .rsplit_once(", expected ")
        .map(|(_, expected)| expected);
    let fault = match expected.unwrap_or_default() {
        "a map" => "must be an object",
        text if text.starts_with("struct ") => "must be an object",
        "a sequence" => "must be an array",
        "a string" => "must be a string",
        "a boolean" => "must be true or false",
        "u32" | "u64" | "i32" | "i64" | "usize" => "must be a whole number",
        "f32" | "f64" => "must be a number",
        _ => "is not what MCP defines",
    };
    Some(format!("`{}` {fault}", first_chars(path, MAX_PATH_CHARS)))
}

/// Returns the error of a request whose method the server does not have.
pub(crate) fn unknown_method(method: &str) -> ErrorData {
    let method = first_chars(method, 64);
    let message = format!("{UNKNOWN_METHOD} `{method}`");
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None)
}

/// Sets the text of an unknown method where the library has refused it itself, with its name alone.
pub(crate) fn set_own_words(message: &mut ServerJsonRpcMessage) {
    if let ServerJsonRpcMessage::Error(refused) = message
        && refused.error.code == ErrorCode::METHOD_NOT_FOUND
        && !refused.error.message.starts_with(UNKNOWN_METHOD)
    {
        refused.error = unknown_method(&refused.error.message);
    }
}

fn not_json(error: &json::JsonError) -> Refusal {
    let code = match error.kind {
        JsonErrorKind::Syntax => ErrorCode::PARSE_ERROR,
        _ => ErrorCode::INVALID_REQUEST,
    };
    Refusal::new(None, code, format!("the message is not JSON: {error}"))
}

fn is_id(id: &RawValue) -> bool {
    may_repeat(id) && (id.get().starts_with('"') || id.get().parse::<i64>().is_ok())
}

/// Returns whether an answer can repeat this id.
fn may_repeat(id: &RawValue) -> bool {
    let is_scalar = id
        .get()
        .starts_with(|c: char| c == '"' || c == '-' || c.is_ascii_digit());
    is_scalar && id.get().len() <= MAX_ID_BYTES
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn refused(message: &[u8]) -> (i64, Value) {
        let refusal = text(message)
            .and_then(|text| Head::parse(&text)?.message(&text))
            .unwrap_err();
        let answer: Value = serde_json::from_str(&refusal.to_json()).unwrap();
        (
            answer["error"]["code"].as_i64().unwrap(),
            answer["id"].clone(),
        )
    }

    #[test]
    fn refusal_has_the_code_and_id_of_its_message() {
        let list = |id: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list"}}"#);
        let id = |id: &str| serde_json::from_str::<Value>(id).unwrap();
        for row in [
            "-32700 null not json",
            "-32700 null \u{0}",
            "-32700 null {",
            r#"-32700 null {"jsonrpc":"2.0","id":1,"method":"tools/list"} x"#,
            "-32700 null [",
            "-32600 null []",
            r#"-32600 null [{"jsonrpc":"2.0","id":1,"method":"ping"}]"#,
            "-32600 null null",
            "-32600 null 5",
            "-32600 null {}",
            r#"-32600 1 {"jsonrpc":"1.0","id":1}"#,
            r#"-32600 "a" {"jsonrpc":"2.0","id":"a","method":5}"#,
            r#"-32600 "a" {"jsonrpc":"2.0","id":"a"}"#,
            r#"-32600 null {"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#,
            r#"-32602 7 {"jsonrpc":"2.0","id":7,"method":"tools/call","params":5}"#,
            r#"-32602 7 {"jsonrpc":"2.0","id":7,"method":"tools/call"}"#,
            r#"-32602 7 {"jsonrpc":"2.0","id":7,"method":"initialize","params":{}}"#,
            r#"-32601 7 {"jsonrpc":"2.0","id":7,"method":"no/such"}"#,
            r#"-32601 7 {"jsonrpc":"2.0","id":7,"method":"notifications/initialized"}"#,
        ] {
            let columns: Vec<&str> = row.splitn(3, ' ').collect();
            let expected = (columns[0].parse().unwrap(), id(columns[1]));
            assert_eq!(refused(columns[2].as_bytes()), expected, "{row}");
        }
        let long = format!("\"{}\"", "x".repeat(MAX_ID_BYTES));
        for (sent, answered) in [
            ("null", "null"),
            ("true", "null"),
            ("{}", "null"),
            ("1.5", "1.5"),
            ("99999999999999999999", "99999999999999999999"),
            (&long, "null"),
        ] {
            let refusal = refused(list(sent).as_bytes());
            assert_eq!(refusal, (-32600, id(answered)), "{sent:.20}");
        }
        let deep = "[".repeat(65);
        let many = format!("[{}0]", "{\"a\":0},".repeat(20_000));
        for message in [deep, many] {
            let refusal = refused(message.as_bytes());
            assert_eq!(refusal, (-32600, Value::Null), "{message:.100}");
        }
        let refusal = Head::parse(&list(&long)).err().unwrap();
        assert!(
            refusal.message.contains("more than 1024 bytes"),
            "{refusal:?}"
        );
        assert_eq!(refused(b"\xFF\xFE{\0").0, -32700);
        assert_eq!(refused(b"{\"jsonrpc\":\"\xC3\"}").0, -32700);
    }

    #[test]
    fn invalid_parameter_is_named_without_its_value() {
        let initialize = |capabilities: Value| json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": {"name": "h", "version": "1"}});
        for (method, params, fault) in [
            (
                "tools/call",
                json!({"name": "remote_agent", "arguments": "s3cret, expected a string"}),
                "`arguments` must be an object",
            ),
            ("tools/call", json!({"arguments": {}}), "`name` is missing"),
            ("tools/call", json!({"name": 5}), "`name` must be a string"),
            ("tools/call", json!(["s3cret"]), "they must be an object"),
            ("tools/call", Value::Null, "they are missing"),
            (
                "initialize",
                initialize(json!({"experimental": {"x": "s3cret"}})),
                "`capabilities.experimental.x` must be an object",
            ),
            (
                "initialize",
                json!({"protocolVersion": "2025-11-25", "capabilities": {}}),
                "`clientInfo` is missing",
            ),
            ("tasks/get", json!({}), "`taskId` is missing"),
        ] {
            let mut message = json!({"jsonrpc": "2.0", "id": 1, "method": method});
            if !params.is_null() {
                message["params"] = params;
            }
            let message = message.to_string();
            let head = Head::parse(&message).unwrap();
            let error = head.message(&message).unwrap_err().message;
            let expected = format!("the parameters of `{method}` are invalid: {fault}");
            assert_eq!(error, expected, "{message}");
        }
    }

    #[test]
    fn messages_are_read() {
        for message in [
            "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}",
            r#" {"jsonrpc":"2.0","id":"x","method":"ping","params":{}} "#,
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}"#,
        ] {
            let text = text(message.as_bytes()).unwrap();
            let head = Head::parse(&text).unwrap();
            assert!(head.message(&text).unwrap().is_some(), "{message}");
        }
    }
}

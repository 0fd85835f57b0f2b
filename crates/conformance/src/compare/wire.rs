//! Requests of peers, reduced to what must not change.

use serde_json::{Map, Value, json};

/// Returns by peer the method, path and body of each request, without fetches of cards and the ids of calls.
pub(crate) fn wire(log: &Value) -> Value {
    let Value::Object(peers) = log else {
        return Value::Null;
    };
    let peers: Map<String, Value> = peers
        .iter()
        .map(|(name, requests)| {
            let requests = requests
                .as_array()
                .into_iter()
                .flatten()
                .filter(|request| !fetches_card(request))
                .map(request);
            (name.clone(), requests.collect())
        })
        .collect();
    Value::Object(peers)
}

fn fetches_card(request: &Value) -> bool {
    let path = request["path"].as_str().unwrap_or_default();
    request["method"] == "GET" && (path.contains("card") || path.contains("agent.json"))
}

fn request(request: &Value) -> Value {
    let mut stable = json!({"method": request["method"], "path": request["path"]});
    if let Value::Object(body) = &request["body"] {
        let mut body = body.clone();
        if body.contains_key("jsonrpc") {
            body.insert("id".to_owned(), Value::from("<id>"));
        }
        stable["body"] = Value::Object(body);
    }
    stable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_calls_are_counted() {
        let log = json!({"main": [
            {"method": "GET", "path": "/.well-known/agent-card.json", "headers": {}},
            {"method": "POST", "path": "/a2a", "headers": {"accept": "*/*"}, "body": {"jsonrpc": "2.0", "id": 7, "method": "m"}},
            {"method": "GET", "path": "/v1/tasks/1", "headers": {}}
        ]});
        let stable = json!({"main": [
            {"method": "POST", "path": "/a2a", "body": {"jsonrpc": "2.0", "id": "<id>", "method": "m"}},
            {"method": "GET", "path": "/v1/tasks/1"}
        ]});
        assert_eq!(wire(&log), stable);
    }
}

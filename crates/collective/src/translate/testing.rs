//! Envelopes of every type that may be translated, for property tests.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::Kind;

fn any_text() -> impl Strategy<Value = String> {
    "[a-zA-Zäöü0-9 .,\"\n-]{1,16}"
}

fn id() -> impl Strategy<Value = String> {
    "[a-z0-9-]{1,12}"
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        any_text().prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            proptest::collection::btree_map("[a-z]{1,6}", inner, 0..3)
                .prop_map(|map| map.into_iter().collect::<Map<_, _>>().into()),
        ]
    })
}

fn parts() -> impl Strategy<Value = Value> {
    let part = prop_oneof![
        any_text().prop_map(|text| json!({"kind": "text", "text": text})),
        any_json().prop_map(|data| json!({"kind": "data", "data": {"value": data}})),
        id().prop_map(|name| json!({"kind": "file", "file": {"uri": format!("https://a/{name}")}})),
    ];
    proptest::collection::vec(part, 0..3).prop_map(|parts| json!({ "parts": parts }))
}

fn any_content() -> impl Strategy<Value = Value> {
    let object = proptest::collection::btree_map("[a-z]{1,6}", any_json(), 0..3);
    prop_oneof![
        any_text().prop_map(Value::from),
        parts(),
        object.prop_map(|map| map.into_iter().collect::<Map<_, _>>().into()),
    ]
}

fn content(kind: Kind) -> BoxedStrategy<Value> {
    let of = |values: &'static [&'static str]| proptest::sample::select(values);
    match kind {
        Kind::Message => (of(&["user", "assistant", "system", "agent"]), any_content())
            .prop_map(|(role, content)| json!({"role": role, "content": content}))
            .boxed(),
        Kind::Proposal => (any_text(), proptest::option::of(any_text()))
            .prop_map(|(proposal, reasoning)| match reasoning {
                Some(reasoning) => json!({"proposal": proposal, "reasoning": reasoning, "deadline": 9}),
                None => json!({"proposal": proposal}),
            })
            .boxed(),
        Kind::Vote => (of(&["approve", "reject", "abstain"]), id(), any_text())
            .prop_map(|(vote, id, reasoning)| json!({"vote": vote, "proposalId": id, "reasoning": reasoning, "confidence": 0.5}))
            .boxed(),
        Kind::Decision => (of(&["approved", "rejected"]), id(), any::<bool>())
            .prop_map(|(result, id, consensus)| {
                json!({"proposalId": id, "result": result, "votes": {"alpha": "approve"}, "consensus": consensus})
            })
            .boxed(),
        Kind::Error => (of(&["AGENT_ERROR", "INVALID_JSON", "own"]), any_text())
            .prop_map(|(error, message)| json!({"error": error, "message": message, "extra": [1]}))
            .boxed(),
        Kind::Response => prop_oneof![
            any_content().prop_map(|content| json!({"result": content})),
            any_content().prop_map(|content| json!({"result": content, "more": 1})),
            (1i32..9).prop_map(|number| json!({"result": [number]})),
        ]
        .boxed(),
        Kind::Status => any_text()
            .prop_map(|status| json!({"agent": "alpha", "status": status}))
            .boxed(),
        Kind::Event => (any_text(), any_json())
            .prop_map(|(event, data)| json!({"event": event, "data": data}))
            .boxed(),
        Kind::Broadcast => any_content().prop_map(|content| json!({"message": content})).boxed(),
        Kind::Request => (any_text(), any_json())
            .prop_map(|(service, query)| json!({"service": service, "query": query}))
            .boxed(),
        Kind::Disconnect => Just(json!({"reason": "manual"})).boxed(),
        Kind::Subscribe | Kind::Unsubscribe => Just(json!({"channel": "agent:status"})).boxed(),
        Kind::AuthResponse => Just(json!({"status": "ok"})).boxed(),
        _ => Just(json!({"action": "list"})).boxed(),
    }
}

fn metadata() -> impl Strategy<Value = Value> {
    let known = (
        proptest::option::of(id()),
        proptest::option::of(id()),
        proptest::option::of(any::<bool>()),
        proptest::option::of(any_json()),
    );
    known.prop_map(|(correlation, parent, requires_response, other)| {
        let mut metadata = Map::new();
        let fields = [
            ("correlationId", correlation.map(Value::from)),
            ("parentId", parent.map(Value::from)),
            ("requiresResponse", requires_response.map(Value::from)),
            ("other", other),
        ];
        let known = fields
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)));
        metadata.extend(known.map(|(name, value)| (name.to_owned(), value)));
        metadata.into()
    })
}

/// Returns a valid envelope of any type but `auth`, which is never translated.
pub(super) fn any_envelope() -> impl Strategy<Value = Value> {
    let kinds: Vec<Kind> = Kind::ALL
        .iter()
        .copied()
        .filter(|kind| *kind != Kind::Auth)
        .collect();
    let kind = proptest::sample::select(kinds);
    let content = kind.prop_flat_map(|kind| (Just(kind), content(kind)));
    let fields = (
        id(),
        proptest::option::of(id()),
        proptest::option::of(id()),
        proptest::option::of(id()),
        proptest::option::of(0u64..1 << 50),
        proptest::option::of(metadata()),
        proptest::option::of(any_json()),
    );
    (content, fields).prop_map(
        |((kind, content), (id, agent, from, session, at, metadata, own))| {
            let agent = agent.or_else(|| (kind == Kind::Message).then(|| "alpha".to_owned()));
            let mut frame = json!({"type": kind.as_str(), "content": content, "id": id});
            let fields = [
                ("agent", agent.map(Value::from)),
                ("from", from.map(Value::from)),
                ("sessionId", session.map(Value::from)),
                ("timestamp", at.map(Value::from)),
                ("metadata", metadata),
                ("own", own),
            ];
            for (name, value) in fields {
                if let Some(value) = value {
                    frame[name] = value;
                }
            }
            frame
        },
    )
}

use serde_json::json;

use super::*;

/// Returns what a task with these metadata reports, as JSON.
fn reported(metadata: Value) -> Value {
    added(&[json!({ "kind": "task", "id": "t", "metadata": metadata })])
}

fn added(events: &[Value]) -> Value {
    let mut usage = Usage::default();
    for event in events {
        usage.add(event);
    }
    match usage.is_empty() {
        true => Value::Null,
        false => json!(usage),
    }
}

#[test]
fn each_form_of_a_report_is_read() {
    let counts = json!({"input": 10, "output": 5, "total": 15});
    for (form, metadata) in [
        (
            "own",
            json!({"usage": {"tokens": {"input": 10, "output": 5}}}),
        ),
        (
            "OpenClaw",
            json!({"openclaw": {"usage": {"input": 10, "output": 5, "total": 15}, "stopReason": "stop"}}),
        ),
        (
            "ADK",
            json!({"adk_usage_metadata": {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}}),
        ),
        (
            "OpenAI",
            json!({"usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}}),
        ),
        (
            "Anthropic",
            json!({"usage": {"input_tokens": 10, "output_tokens": 5}}),
        ),
        (
            "OpenTelemetry",
            json!({"gen_ai.usage.input_tokens": 10, "gen_ai.usage.output_tokens": 5}),
        ),
        (
            "extension",
            json!({"https://x.example/budget/v1": {"incurred": {"tokens": {"input": 10, "output": 5}}}}),
        ),
        (
            "field of an extension",
            json!({"https://x.example/v1/usage": {"input_tokens": "10", "output_tokens": 5.0}}),
        ),
    ] {
        let expected = json!({"tokens": counts, "estimated": false});
        assert_eq!(reported(metadata), expected, "{form}");
    }
}

#[test]
fn each_form_of_a_cost_is_in_micro_dollars() {
    for metadata in [
        json!({"cost_usd": 0.07}),
        json!({"totalCostUsd": "0.07"}),
        json!({"usage": {"usd_micros": 70_000}}),
        json!({"usage": {"cost": 0.07, "currency": "usd"}}),
        json!({"https://x.example/budget/v1": {"incurred": {"cost": {"amount": "0.07", "currency": "USD"}}}}),
    ] {
        let expected = json!({"usd_micros": 70_000, "estimated": false});
        assert_eq!(reported(metadata.clone()), expected, "{metadata}");
    }
}

#[test]
fn report_is_found_in_every_place() {
    let usage = json!({"usage": {"tokens": {"total": 3}}});
    let holder = json!({"artifactId": "a", "messageId": "m", "parts": [], "metadata": usage});
    let data =
        json!({"parts": [{"kind": "data", "data": {"usage": {"total_tokens": 3}, "costUsd": 1}}]});
    for event in [
        json!({"kind": "task", "metadata": usage}),
        json!({"kind": "task", "status": {"state": "completed", "message": holder}}),
        json!({"kind": "task", "artifacts": [{"parts": []}, holder]}),
        json!({"kind": "message", "parts": [], "metadata": usage}),
        json!({"kind": "status-update", "metadata": usage}),
        json!({"kind": "artifact-update", "artifact": holder}),
        json!({"kind": "artifact-update", "artifact": data}),
    ] {
        assert_eq!(
            added(std::slice::from_ref(&event))["tokens"]["total"],
            3,
            "{event}"
        );
    }
}

#[test]
fn other_data_is_no_report() {
    for event in [
        json!({"kind": "task", "metadata": {"cost": 7, "total": 9, "input": 3, "durationMs": 5, "openclaw-remote-agent/delegation": {"hop": 1}}}),
        json!({"kind": "message", "parts": [{"kind": "data", "data": {"cost": 7, "costUsd": 900, "usage": "daily"}}]}),
        json!({"kind": "task", "history": [{"metadata": {"usage": {"tokens": {"total": 3}}}}]}),
        json!({"kind": "task", "metadata": {"https://x.example/citations/v1": {"total": 3, "input": 2}}}),
        json!({"kind": "task", "metadata": []}),
        json!("text"),
    ] {
        assert_eq!(added(std::slice::from_ref(&event)), Value::Null, "{event}");
    }
}

#[test]
fn hostile_numbers_are_ignored_or_saturate() {
    for value in [
        json!(-1),
        json!(-0.01),
        json!("NaN"),
        json!("nan"),
        json!("-inf"),
        json!("Infinity"),
        json!("1e999"),
        json!("many"),
        json!(""),
        json!(null),
        json!(true),
        json!([1]),
        json!({"amount": 1}),
    ] {
        let metadata =
            json!({"cost_usd": value, "usage": {"input_tokens": value, "duration_ms": value}});
        assert_eq!(reported(metadata), Value::Null, "{value}");
    }
    for value in [json!(1e308), json!("1e308"), json!(u64::MAX)] {
        let usage =
            reported(json!({"cost_usd": value, "usage": {"input": value, "output": value}}));
        assert_eq!(usage["usd_micros"], MAX_COUNT, "{value}");
        assert_eq!(usage["tokens"]["total"], MAX_COUNT, "{value}");
    }
}

#[test]
fn other_currency_is_named_and_not_converted() {
    for (currency, named) in [
        (json!("EUR"), "EUR"),
        (json!("eur"), "EUR"),
        (json!("<script>"), "unknown"),
        (json!(null), "unknown"),
    ] {
        let metadata = json!({"usage": {"cost": {"amount": "7", "currency": currency}}});
        let expected = json!({"unknown_currency": named, "estimated": false});
        assert_eq!(reported(metadata), expected, "{currency}");
    }
}

#[test]
fn repeated_report_counts_once() {
    let usage = |total: u64| json!({"usage": {"tokens": {"total": total}}, "cost_usd": 0.5});
    let events = [
        json!({"kind": "status-update", "metadata": usage(3)}),
        json!({"kind": "status-update", "metadata": usage(9)}),
        json!({"kind": "task", "metadata": usage(9), "artifacts": [{"parts": [], "metadata": usage(9)}]}),
    ];
    let expected = json!({"tokens": {"total": 9}, "usd_micros": 500_000, "estimated": false});
    assert_eq!(added(&events), expected);
}

#[test]
fn total_is_never_less_than_its_parts() {
    let usage = reported(json!({"usage": {"input": 10, "output": 5, "total": 1}}));
    assert_eq!(usage["tokens"]["total"], 15);
    let cached = reported(json!({"usage": {"input_tokens": 1, "cache_read_input_tokens": 7}}));
    assert_eq!(cached["tokens"]["total"], 8);
}

#[test]
fn estimate_is_marked() {
    for report in [
        json!({"tokens": 3, "estimated": true}),
        json!({"cost": {"amount": 1, "currency": "USD", "source": "estimated"}}),
    ] {
        assert_eq!(reported(json!({ "usage": report }))["estimated"], true);
    }
}

#[test]
fn written_form_is_read_back() {
    let mut usage = Usage::default();
    usage.add(&json!({"metadata": {"usage": {"input": 3, "durationMs": 12, "cost": 1, "currency": "EUR"}, "cost_usd": 2, "estimated": true}}));
    let written = json!(usage);
    assert_eq!(written["duration_ms"], 12);
    assert_eq!(reported(json!({ "usage": written })), written);
}

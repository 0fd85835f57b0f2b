//! Reports of peers, and what their tasks are charged.

use super::*;

/// Returns the scopes of a message to the target with the budget `own`, in no chain.
fn scopes_of(target: &str, own: Value, budgets: Value) -> Vec<Scope> {
    let budgets: Budgets = serde_json::from_value(budgets).unwrap();
    let own: Budget = serde_json::from_value(own).unwrap();
    budgets.scopes(target, Some(&own), None)
}

/// Sends a message of a task, and ends its call with this report of tokens.
fn turn(ledger: &Ledger, scopes: &[Scope], task: &str, tokens: Option<u64>) -> Settled {
    let reservation = ledger.reserve(scopes, at(0)).unwrap();
    let end = Settlement {
        task: Some(format!("desk {task}")),
        tokens,
        ..end(&reservation)
    };
    ledger.settle(scopes, &end, at(0)).unwrap()
}

#[test]
fn reports_of_one_task_count_once_and_replace_the_estimate() {
    let Fixture(_, ledger) = &Fixture::new();
    let scopes = scopes(json!({"target": {"tokens": 1000}}));
    let first = ledger.reserve(&scopes, at(0)).unwrap();
    let report = |tokens, reserved| Settlement {
        reserved,
        task: Some("desk t-1".to_owned()),
        tokens,
        ..Settlement::default()
    };
    ledger
        .settle(&scopes, &report(Some(100), first.amounts), at(1))
        .unwrap();
    assert_eq!(used(ledger, "target desk"), [1, 0, 100, 0]);
    // The next message is reserved the average, and nothing is reported about it before it is watched.
    let second = ledger.reserve(&scopes, at(2)).unwrap();
    assert_eq!(second.amounts.0, [1, 0, 100, 0]);
    let waiting = Settlement {
        task: Some("desk t-2".to_owned()),
        ..end(&second)
    };
    ledger.settle(&scopes, &waiting, at(3)).unwrap();
    assert_eq!(used(ledger, "target desk"), [2, 0, 200, 0]);
    let watched = Settlement {
        task: Some("desk t-2".to_owned()),
        tokens: Some(30),
        ..Settlement::default()
    };
    for _ in 0..3 {
        ledger.settle(&scopes, &watched, at(4)).unwrap();
        ledger
            .settle(&scopes, &report(Some(100), Amounts::default()), at(4))
            .unwrap();
        // A lower report gives nothing back.
        ledger
            .settle(&scopes, &report(Some(1), Amounts::default()), at(4))
            .unwrap();
    }
    assert_eq!(used(ledger, "target desk"), [2, 0, 130, 0]);
}

#[test]
fn late_report_counts_in_the_chain_of_the_task() {
    let Fixture(_, ledger) = &Fixture::new();
    let budgets: Budgets = serde_json::from_value(json!({"chain": {"tokens": 50}})).unwrap();
    let scopes = budgets.scopes("desk", None, Some(Work::Chain("c")));
    let reservation = ledger.reserve(&scopes, at(0)).unwrap();
    let task = Some("desk t".to_owned());
    let sent = Settlement {
        task: task.clone(),
        ..end(&reservation)
    };
    ledger.settle(&scopes, &sent, at(1)).unwrap();
    let watched = Settlement {
        task,
        tokens: Some(50),
        ..Settlement::default()
    };
    let without_chain = budgets.scopes("desk", None, None);
    ledger.settle(&without_chain, &watched, at(2)).unwrap();
    assert_eq!(used(ledger, "chain c"), [1, 0, 50, 0]);
    exceeded(ledger.reserve(&scopes, at(3)));
}

#[test]
fn turns_that_are_reported_alone_are_estimated() {
    let Fixture(_, ledger) = &Fixture::new();
    let scopes = scopes(json!({"target": {"tokens": 10_000}}));
    for (reported, expected) in [
        (100, 100),
        // Less than before: the average of the messages so far.
        (90, 200),
        (100, 300),
        // More than all before: it may speak of the whole task.
        (110, 300),
        (700, 700),
    ] {
        turn(ledger, &scopes, "t", Some(reported));
        assert_eq!(used(ledger, "target desk")[2], expected, "{reported}");
    }
}

#[test]
fn implausible_report_leaves_the_others_their_budget() {
    for (own, report, [of_target, of_total], is_implausible) in [
        (json!({"tokens": 500}), 700, [700, 500], false),
        (
            json!({"tokens": 500}),
            (1 << 53) - 1,
            [(1 << 53) - 1, 500],
            true,
        ),
        (json!({"calls": 9}), (1 << 53) - 1, [1_000_000; 2], true),
        (json!({"calls": 9}), 900_000, [900_000; 2], false),
    ] {
        let Fixture(_, ledger) = &Fixture::new();
        let scopes = scopes_of("desk", own, json!({"total": {"tokens": 50_000_000}}));
        let settled = turn(ledger, &scopes, "t", Some(report));
        assert_eq!(settled.is_implausible, is_implausible, "{report}");
        assert_eq!(used(ledger, "target desk")[2], of_target, "{report}");
        assert_eq!(used(ledger, "total")[2], of_total, "{report}");
        let again = Settlement {
            task: Some("desk t".to_owned()),
            tokens: Some(report),
            ..Settlement::default()
        };
        let again = ledger.settle(&scopes, &again, at(1)).unwrap();
        assert!(!again.is_implausible, "it is said once");
        assert_eq!(used(ledger, "total")[2], of_total, "{report}");
    }
}

#[test]
fn ten_times_the_largest_earlier_task_is_plausible() {
    let Fixture(_, ledger) = &Fixture::new();
    let scopes = scopes_of("desk", json!({}), json!({"total": {"tokens": 50_000_000}}));
    turn(ledger, &scopes, "first", Some(900_000));
    turn(ledger, &scopes, "second", Some(1 << 50));
    assert_eq!(used(ledger, "total")[2], 900_000 * 11);
}

#[test]
fn limit_in_dollars_names_a_currency_that_it_does_not_count() {
    for (budgets, warned) in [
        (json!({"target": {"usd": 5}}), true),
        (json!({"target": {"calls": 5}}), false),
    ] {
        let Fixture(_, ledger) = &Fixture::new();
        let scopes = scopes(budgets);
        let reservation = ledger.reserve(&scopes, at(0)).unwrap();
        let end = Settlement {
            unknown_currency: Some("EUR".to_owned()),
            ..end(&reservation)
        };
        let warning = ledger.settle(&scopes, &end, at(0)).unwrap().warning;
        let expected = warned.then(|| ("usd", Some("EUR".to_owned())));
        assert_eq!(
            warning.map(|level| (level.unit, level.unknown_currency)),
            expected
        );
    }
}

#[test]
fn watching_counts_in_the_chain_of_the_message() {
    let Fixture(_, ledger) = &Fixture::new();
    let budgets: Budgets = serde_json::from_value(json!({"chain": {"tokens": 500}})).unwrap();
    let scopes = |chain| budgets.scopes("desk", None, Some(Work::Chain(chain)));
    turn(ledger, &scopes("a"), "t", None);
    let watched = Settlement {
        task: Some("desk t".to_owned()),
        tokens: Some(50),
        ..Settlement::default()
    };
    ledger.settle(&scopes("b"), &watched, at(1)).unwrap();
    assert_eq!(used(ledger, "chain a"), [1, 0, 50, 0]);
    assert!(!ledger.read().unwrap().scopes.contains_key("chain b"));
}

#[test]
fn record_with_estimates_goes_on() {
    let fixture = Fixture::new();
    fixture.write(&format!(
        r#"{{"version": 1, "day": {DAY}, "scopes": {{"target desk": {{"used": [2, 0, 130, 0], "added": [0, 0, 0, 0], "touched": 0}}}},
        "tasks": {{"desk t": {{"reported": [0, 0, 100, 0], "estimated": [1, 0, 20, 0], "touched": 0}}}}}}"#
    ));
    let report = Settlement {
        task: Some("desk t".to_owned()),
        tokens: Some(150),
        ..Settlement::default()
    };
    let scopes = scopes(json!({"target": {"tokens": 1000}}));
    fixture.1.settle(&scopes, &report, at(1)).unwrap();
    assert_eq!(used(&fixture.1, "target desk"), [2, 0, 180, 0]);
}

#[test]
fn long_ids_of_tasks_do_not_fill_the_file() {
    let Fixture(_, ledger) = &Fixture::new();
    let scopes = scopes(json!({"target": {"tokens": 100}}));
    let end = Settlement {
        task: Some("x".repeat(5 << 20)),
        tokens: Some(7),
        ..Settlement::default()
    };
    ledger.settle(&scopes, &end, at(0)).unwrap();
    assert_eq!(used(ledger, "target desk"), [0, 0, 7, 0]);
    assert!(fs::metadata(ledger.path()).unwrap().len() < 1000);
}

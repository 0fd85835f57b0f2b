#![allow(clippy::unwrap_used, clippy::panic)]

mod reports;

use std::sync::Arc;
use std::thread;
use std::time::UNIX_EPOCH;

use serde_json::json;

use super::record::{Charge, MAX_ENTRIES, MAX_TASK_BYTES, is_chain, is_session};
use super::*;

const DAY: u64 = 20_000;

/// Returns the time of so many seconds on the first day.
fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(DAY * SECONDS_OF_DAY + seconds)
}

struct Fixture(PathBuf, Ledger);

impl Fixture {
    fn new() -> Self {
        let folder = std::env::temp_dir().join(format!("budget-{}", uuid::Uuid::new_v4()));
        let ledger = Ledger::new(folder.join("state/budget.json"));
        Self(folder, ledger)
    }

    fn write(&self, text: &str) {
        fs::create_dir_all(self.1.path().parent().unwrap()).unwrap();
        fs::write(self.1.path(), text).unwrap();
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns the scopes of a message to `desk` in the chain `c`.
fn scopes(budgets: Value) -> Vec<Scope> {
    let budgets: Budgets = serde_json::from_value(budgets).unwrap();
    budgets.scopes("desk", None, Some(Work::Chain("c")))
}

fn used(ledger: &Ledger, scope: &str) -> [u64; 4] {
    ledger.read().unwrap().scopes[scope].used.0
}

fn exceeded(outcome: Result<Reservation, BudgetError>) -> Level {
    match outcome.unwrap_err() {
        BudgetError::Exceeded(level) => *level,
        BudgetError::Unusable(message) => panic!("{message}"),
    }
}

fn unusable<T: std::fmt::Debug>(outcome: Result<T, BudgetError>) -> String {
    match outcome.unwrap_err() {
        BudgetError::Unusable(message) => message,
        BudgetError::Exceeded(level) => panic!("{level:?}"),
    }
}

/// Returns the end of a call that was reserved that much.
fn end(reservation: &Reservation) -> Settlement {
    Settlement {
        reserved: reservation.amounts,
        ..Settlement::default()
    }
}

#[test]
fn reservation_without_an_end_counts() {
    let Fixture(_, ledger) = &Fixture::new();
    let scopes = scopes(json!({"target": {"calls": 2}}));
    ledger.reserve(&scopes, at(0)).unwrap();
    // Another process with the same file.
    let other = Ledger::new(ledger.path().to_owned());
    assert_eq!(
        other.reserve(&scopes, at(1)).unwrap().left,
        [Some(0), None, None, None]
    );
    let level = exceeded(ledger.reserve(&scopes, at(2)));
    assert_eq!(
        json!(level),
        json!({"scope": "target", "unit": "calls", "limit": 2, "used": 2, "resets": "2024-10-05T00:00:00.000Z"})
    );
}

#[test]
fn each_unit_and_scope_is_limited() {
    for (budgets, scope, unit) in [
        (json!({"target": {"tokens": 10}}), "target", "tokens"),
        (json!({"chain": {"usd": 0.000_01}}), "chain", "usd"),
        (json!({"total": {"seconds": 1}}), "total", "seconds"),
        (
            json!({"total": {"calls": 1}, "target": {"calls": 9}}),
            "total",
            "calls",
        ),
        (json!({"target": {"calls": 0}}), "target", "calls"),
    ] {
        let Fixture(_, ledger) = &Fixture::new();
        let scopes = scopes(budgets.clone());
        if let Ok(reservation) = ledger.reserve(&scopes, at(0)) {
            let end = Settlement {
                elapsed: 1000,
                tokens: Some(10),
                usd_micros: Some(10),
                ..end(&reservation)
            };
            ledger.settle(&scopes, &end, at(1)).unwrap();
        }
        let level = exceeded(ledger.reserve(&scopes, at(2)));
        assert_eq!((&*level.scope, level.unit), (scope, unit), "{budgets}");
        assert_eq!(level.resets.is_none(), scope == "chain", "{budgets}");
    }
}

#[test]
fn message_that_did_not_leave_is_given_back() {
    let Fixture(_, ledger) = &Fixture::new();
    let scopes = scopes(json!({"target": {"calls": 1}}));
    for second in 0..3 {
        let reservation = ledger.reserve(&scopes, at(second)).unwrap();
        let unsent = Settlement {
            unsent: true,
            ..end(&reservation)
        };
        ledger.settle(&scopes, &unsent, at(second)).unwrap();
    }
    assert_eq!(used(ledger, "target desk"), [0; 4]);
}

#[test]
fn four_fifths_are_a_warning() {
    let Fixture(_, ledger) = &Fixture::new();
    let scopes = scopes(json!({"target": {"calls": 5}, "total": {"calls": 100}}));
    let mut warnings = Vec::new();
    for second in 0..5 {
        let reservation = ledger.reserve(&scopes, at(second)).unwrap();
        let level = ledger
            .settle(&scopes, &end(&reservation), at(second))
            .unwrap();
        warnings.push(level.warning.map(|level| level.used));
    }
    assert_eq!(warnings, [None, None, None, Some(json!(4)), Some(json!(5))]);
}

#[test]
fn next_day_starts_from_zero_and_a_clock_set_back_does_not() {
    let Fixture(_, ledger) = &Fixture::new();
    let scopes = scopes(json!({"target": {"calls": 1}}));
    ledger.reserve(&scopes, at(SECONDS_OF_DAY)).unwrap();
    exceeded(ledger.reserve(&scopes, at(0)));
    exceeded(ledger.reserve(&scopes, UNIX_EPOCH));
    ledger.reserve(&scopes, at(2 * SECONDS_OF_DAY)).unwrap();
}

#[test]
fn chain_outlives_midnight_and_ends_a_day_after_its_last_message() {
    let Fixture(_, ledger) = &Fixture::new();
    let scopes = scopes(json!({"chain": {"calls": 1}}));
    ledger.reserve(&scopes, at(SECONDS_OF_DAY - 1)).unwrap();
    exceeded(ledger.reserve(&scopes, at(SECONDS_OF_DAY + 1)));
    ledger.reserve(&scopes, at(2 * SECONDS_OF_DAY)).unwrap();
}

#[test]
fn chains_and_tasks_are_bounded() {
    let Fixture(_, ledger) = &Fixture::new();
    let mut record = Record::new();
    record.day = DAY;
    for i in 0..MAX_ENTRIES as u64 {
        let entry = Entry {
            touched: DAY * SECONDS_OF_DAY + i,
            ..Entry::default()
        };
        record.scopes.insert(format!("chain {i}"), entry);
        record.tasks.insert(
            i.to_string(),
            Charge {
                touched: i,
                ..Charge::default()
            },
        );
    }
    files::create_private_dir(ledger.path().parent().unwrap()).unwrap();
    fs::write(ledger.path(), json!(record).to_string()).unwrap();
    let scopes = scopes(json!({"chain": {"calls": 1}}));
    let reservation = ledger.reserve(&scopes, at(5000)).unwrap();
    let end = Settlement {
        task: Some("new".to_owned()),
        ..end(&reservation)
    };
    ledger.settle(&scopes, &end, at(5000)).unwrap();
    let record = ledger.read().unwrap();
    let chains = record.scopes.keys().filter(|name| is_chain(name)).count();
    assert_eq!((chains, record.tasks.len()), (MAX_ENTRIES, MAX_ENTRIES));
    assert!(record.scopes.contains_key("chain c") && !record.scopes.contains_key("chain 0"));
    assert!(record.tasks.contains_key("new") && !record.tasks.contains_key("0"));
}

#[test]
fn what_is_added_raises_the_limit_for_the_day() {
    let Fixture(_, ledger) = &Fixture::new();
    let scopes = scopes(json!({"target": {"calls": 1}}));
    ledger.reserve(&scopes, at(0)).unwrap();
    let more = Budget {
        calls: Some(1),
        ..Budget::default()
    }
    .amounts();
    ledger
        .change("target desk", at(1), |entry| {
            entry.added = entry.added.plus(more)
        })
        .unwrap();
    ledger.reserve(&scopes, at(2)).unwrap();
    exceeded(ledger.reserve(&scopes, at(3)));
    ledger
        .change("target desk", at(4), |entry| {
            entry.used = Amounts::default()
        })
        .unwrap();
    ledger.reserve(&scopes, at(5)).unwrap();
}

#[test]
fn damaged_file_lifts_no_limit_and_is_put_aside_on_request() {
    let scopes = scopes(json!({"target": {"calls": 1}}));
    for text in [
        "",
        "{",
        "null",
        "[]",
        "{}",
        r#"{"version": 0, "day": 0, "scopes": {}, "tasks": {}}"#,
        r#"{"version": 1, "day": 0, "scopes": {"total": {"used": [-1, 0, 0, 0], "added": [0, 0, 0, 0], "touched": 0}}, "tasks": {}}"#,
        r#"{"version": 1, "day": 0, "scopes": {}, "tasks": {}, "secret": "s3cret"}"#,
    ] {
        let fixture = Fixture::new();
        let ledger = &fixture.1;
        fixture.write(text);
        let message = unusable(ledger.reserve(&scopes, at(0)));
        assert!(
            message.contains("budget --repair") && !message.contains("s3cret"),
            "{message}"
        );
        assert_eq!(fs::read_to_string(ledger.path()).unwrap(), text);
        let aside = ledger.repair().unwrap().unwrap();
        assert_eq!(fs::read_to_string(aside).unwrap(), text);
        ledger.reserve(&scopes, at(0)).unwrap();
        assert_eq!(ledger.repair().unwrap(), None);
        exceeded(ledger.reserve(&scopes, at(0)));
    }
}

#[test]
fn record_of_a_newer_version_stays_and_lifts_no_limit() {
    let scopes = scopes(json!({"target": {"calls": 1}}));
    let fixture = Fixture::new();
    let ledger = &fixture.1;
    let text = r#"{"version": 2, "days": {}}"#;
    fixture.write(text);
    let message = unusable(ledger.reserve(&scopes, at(0)));
    assert!(message.contains("a newer version"), "{message}");
    assert_eq!(unusable(ledger.repair()), message);
    assert_eq!(fs::read_to_string(ledger.path()).unwrap(), text);
}

#[test]
fn record_of_the_first_version_counts() {
    let scopes = scopes(json!({"target": {"calls": 2}}));
    let fixture = Fixture::new();
    fixture.write(
        r#"{"version": 1, "day": 20000, "scopes": {"target desk": {"used": [2, 0, 0, 0], "added": [0, 0, 0, 0], "touched": 0}},
            "tasks": {"desk t": {"reported": [0, 0, 5, 0], "charged": [0, 0, 5, 0], "touched": 0}}}"#,
    );
    exceeded(fixture.1.reserve(&scopes, at(1)));
}

#[test]
fn ends_of_several_calls_are_recorded_at_once() {
    let scopes = scopes(json!({"target": {"calls": 5}}));
    let fixture = Fixture::new();
    let ledger = &fixture.1;
    let ends = [at(0), at(1), at(2)].map(|now| end(&ledger.reserve(&scopes, now).unwrap()));
    let unsent = Settlement {
        unsent: true,
        ..ends[0].clone()
    };
    let all = [
        (&*scopes, &unsent),
        (&*scopes, &ends[1]),
        (&*scopes, &ends[2]),
    ];
    assert_eq!(ledger.settle_all(&all, at(3)).unwrap().len(), 3);
    assert_eq!(used(ledger, "target desk")[0], 2);
}

#[test]
fn file_that_cannot_be_written_refuses() {
    let fixture = Fixture::new();
    fs::create_dir_all(&fixture.0).unwrap();
    fs::write(fixture.0.join("state"), "").unwrap();
    let message = unusable(
        fixture
            .1
            .reserve(&scopes(json!({"total": {"calls": 9}})), at(0)),
    );
    assert!(message.contains("cannot be used"), "{message}");
}

#[cfg(unix)]
#[test]
fn only_the_owner_reads_the_file() {
    use std::os::unix::fs::PermissionsExt as _;
    let Fixture(_, ledger) = &Fixture::new();
    ledger
        .reserve(&scopes(json!({"total": {"calls": 9}})), at(0))
        .unwrap();
    let mode = fs::metadata(ledger.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn calls_at_the_same_time_share_one_limit() {
    let Fixture(_, ledger) = &Fixture::new();
    let scopes = Arc::new(scopes(json!({"total": {"calls": 10}})));
    let fits = |_| {
        let (ledger, scopes) = (ledger.clone(), Arc::clone(&scopes));
        thread::spawn(move || {
            (0..5)
                .filter(|_| ledger.reserve(&scopes, at(0)).is_ok())
                .count()
        })
    };
    let threads: Vec<_> = (0..4).map(fits).collect();
    let passed: usize = threads
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .sum();
    assert_eq!(passed, 10);
}

#[test]
fn levels_are_those_of_limits_and_of_chains_on_record() {
    let Fixture(_, ledger) = &Fixture::new();
    let budgets: Budgets =
        serde_json::from_value(json!({"target": {"calls": 9, "usd": 1.5}, "chain": {"calls": 3}}))
            .unwrap();
    ledger
        .reserve(&budgets.scopes("desk", None, Some(Work::Chain("c"))), at(0))
        .unwrap();
    let scopes = budgets.scopes("desk", None, None);
    let levels = ledger.levels(scopes, &budgets, at(0)).unwrap();
    let shown: Vec<_> = levels
        .iter()
        .map(|(name, level)| (&**name, level.unit, &level.limit, &level.used))
        .collect();
    assert_eq!(
        shown,
        [
            ("target desk", "calls", &json!(9), &json!(1)),
            ("target desk", "usd", &json!(1.5), &json!(0.0)),
            ("chain c", "calls", &json!(3), &json!(1)),
        ]
    );
}

#[test]
fn no_budget_has_no_scope() {
    assert!(scopes(json!({})).is_empty());
    assert!(scopes(json!({"target": {}, "total": {}})).is_empty());
}

#[test]
fn time_without_a_message_is_no_average() {
    let Fixture(_, ledger) = &Fixture::new();
    let scopes = scopes(json!({"target": {"seconds": 100}}));
    let watched = Settlement {
        elapsed: 60_000,
        ..Settlement::default()
    };
    ledger.settle(&scopes, &watched, at(0)).unwrap();
    let reservation = ledger.reserve(&scopes, at(1)).unwrap();
    assert_eq!(reservation.amounts.0, [1, 0, 0, 0]);
}

#[test]
fn session_has_the_budget_of_a_chain_for_a_day() {
    let Fixture(_, ledger) = &Fixture::new();
    let budgets: Budgets = serde_json::from_value(json!({"chain": {"calls": 1}})).unwrap();
    let scopes = |key: &str| budgets.scopes("desk", None, Some(Work::Session(key)));
    ledger.reserve(&scopes("agent:main:x"), at(0)).unwrap();
    let level = exceeded(ledger.reserve(&scopes("agent:main:x"), at(1)));
    assert_eq!(level.scope, "chain");
    assert!(level.resets.is_some());
    ledger.reserve(&scopes("agent:main:y"), at(2)).unwrap();
    let tomorrow = at(SECONDS_OF_DAY);
    ledger.reserve(&scopes("agent:main:x"), tomorrow).unwrap();
    // A key may be long, and is not a way to more.
    let long = |end: &str| scopes(&("é".repeat(MAX_TASK_BYTES) + end));
    ledger.reserve(&long("a"), tomorrow).unwrap();
    exceeded(ledger.reserve(&long("b"), tomorrow));
}

#[test]
fn sessions_do_not_push_chains_out() {
    let fixture = Fixture::new();
    let ledger = &fixture.1;
    let mut record = Record::new();
    record.day = DAY;
    let entry = Entry {
        touched: DAY * SECONDS_OF_DAY,
        ..Entry::default()
    };
    for i in 0..=MAX_ENTRIES {
        record.scopes.insert(format!("session {i}"), entry);
    }
    record.scopes.insert("chain c".to_owned(), entry);
    fixture.write(&json!(record).to_string());
    ledger
        .reserve(&scopes(json!({"total": {"calls": 1}})), at(1))
        .unwrap();
    let record = ledger.read().unwrap();
    assert!(record.scopes.contains_key("chain c"));
    let sessions = record.scopes.keys().filter(|name| is_session(name));
    assert_eq!(sessions.count(), MAX_ENTRIES);
}

#[test]
fn targets_on_record_are_listed() {
    let Fixture(_, ledger) = &Fixture::new();
    let budgets: Budgets =
        serde_json::from_value(json!({"target": {"calls": 9}, "chain": {"calls": 3}})).unwrap();
    let work = Some(Work::Session("agent:main:x"));
    ledger
        .reserve(&budgets.scopes("gateway:beta", None, work), at(0))
        .unwrap();
    let levels = ledger.levels(budgets.scopes("desk", None, None), &budgets, at(0));
    let names: Vec<_> = levels.unwrap().into_iter().map(|(name, _)| name).collect();
    assert_eq!(
        names,
        ["target desk", "session agent:main:x", "target gateway:beta"]
    );
}

#[cfg(unix)]
#[test]
fn directory_that_everyone_may_write_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let fixture = Fixture::new();
    let folder = fixture.1.path().parent().unwrap();
    fs::create_dir_all(folder).unwrap();
    let scopes = scopes(json!({"total": {"calls": 9}}));
    fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).unwrap();
    let message = unusable(fixture.1.reserve(&scopes, at(0)));
    assert!(message.contains("every user can write"), "{message}");
    assert_eq!(unusable(fixture.1.check_file()), message);
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    fixture.1.reserve(&scopes, at(0)).unwrap();
}

#[test]
fn check_finds_what_makes_every_message_fail() {
    let fixture = Fixture::new();
    let scopes = scopes(json!({"total": {"calls": 9}}));
    let find = |ledger: &Ledger| {
        let message = unusable(ledger.check_file());
        assert_eq!(unusable(ledger.check(&scopes, at(0))), message);
        assert_eq!(unusable(ledger.reserve(&scopes, at(0))), message);
        message
    };
    let message = find(&Ledger::new("budget.json".into()));
    assert!(message.contains("not absolute"), "{message}");
    // A file in the place of the directory.
    fs::create_dir_all(&fixture.0).unwrap();
    fs::write(fixture.0.join("state"), "").unwrap();
    find(&fixture.1);
    fs::remove_file(fixture.0.join("state")).unwrap();
    fixture.1.check_file().unwrap();
    // The new content cannot be written.
    let draft = with_suffix(fixture.1.path(), ".new");
    fs::create_dir(&draft).unwrap();
    find(&fixture.1);
    fs::remove_dir(&draft).unwrap();
    fixture.1.check_file().unwrap();
    assert!(!draft.exists() && !fixture.1.path().exists());
    // Another process keeps the lock.
    let lock = fs::File::open(with_suffix(fixture.1.path(), ".lock")).unwrap();
    lock.lock().unwrap();
    let message = unusable(fixture.1.check_file());
    assert!(message.contains("holds its lock"), "{message}");
    fixture.1.check(&scopes, at(0)).unwrap();
}

#[test]
fn file_lies_in_the_state_directory_that_is_set() {
    let home = |name: &str| (name == "HOME").then(|| "/home/a".into());
    let [state, host] = ["/state", "/host"].map(Path::new);
    let file = |budgets: Value, state, host| {
        let budgets: Budgets = serde_json::from_value(budgets).unwrap();
        budgets.file(state, host, home).display().to_string()
    };
    for (found, expected) in [
        (
            file(json!({"path": "/own.json"}), Some(state), Some(host)),
            "/own.json",
        ),
        (
            file(json!({}), Some(state), Some(host)),
            "/state/budget.json",
        ),
        (
            file(json!({}), None, Some(host)),
            "/host/remote-agent/budget.json",
        ),
        (
            file(json!({}), None, None),
            "/home/a/.local/state/openclaw-remote-agent/budget.json",
        ),
    ] {
        assert_eq!(found, expected);
    }
}

//! The budgets, for an operator.

use std::fs;

use serde_json::{Value, json};

use crate::cli::support::*;

#[tokio::test]
async fn damaged_record_is_named_and_repaired() {
    let own = json!({"alias": "desk", "baseUrl": "http://127.0.0.1:1", "budget": {"calls": 3}});
    let config = config_file("budget", &json!({"targets": [own]}));
    let record = std::path::Path::new(&config).with_file_name("budget.json");
    let settings = json!({"targets": [own], "budget": {"path": record}});
    fs::write(&config, settings.to_string()).unwrap();
    let budget =
        async |args: &[&str]| run(&[&["budget", "--config", &config], args].concat()).await;

    fs::write(&record, "{").unwrap();
    let damaged = budget(&[]).await;
    assert_exit_code(&damaged, 1);
    assert_contains(
        &damaged.stderr,
        &[
            "is damaged",
            &format!("remote-agent budget --config {config} --repair"),
        ],
    );
    let doctor = run(&["doctor", "--config", &config]).await;
    assert_contains(
        &doctor.stdout,
        &["error    budget", "the record of budgets is damaged"],
    );
    let repaired = budget(&["--repair"]).await;
    assert_exit_code(&repaired, 0);
    assert_contains(&repaired.stderr, &["budget.json.damaged"]);

    let shown = budget(&["desk", "--add", "calls=2", "--json"]).await;
    assert_exit_code(&shown, 0);
    let shown: Value = json_lines(&shown).pop().unwrap();
    let level = &shown["budgets"][0];
    assert_eq!(
        (&level["scope"], &level["limit"]),
        (&json!("target desk"), &json!(5)),
        "{shown}"
    );

    for (args, said) in [
        (
            &["shop"][..],
            "there is no budget for `target shop` (there are budgets for `target desk`)",
        ),
        (&["desk", "--add", "usd=1"], "does not limit usd"),
        (
            &["--reset"],
            "no budget of all targets together (`budget.total`)",
        ),
        (&["desk", "--add", "usd=-1"], "usd=2.5"),
    ] {
        let refused = budget(args).await;
        assert_exit_code(&refused, 2);
        assert_contains(&refused.stderr, &[said]);
    }
}

#[cfg(unix)]
#[tokio::test]
async fn record_that_is_a_pipe_is_refused() {
    let record = scratch("budget-pipe-record").join("budget.json");
    base::testing::make_pipe(&record);
    let config = config_file("budget-pipe", &json!({"budget": {"path": record}}));
    let refused = run(&["budget", "--config", &config]).await;
    assert_exit_code(&refused, 1);
    assert_contains(&refused.stderr, &["it is no regular file"]);
}

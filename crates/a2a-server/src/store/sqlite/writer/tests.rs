#![allow(clippy::unwrap_used)]

use tempfile::TempDir;

use super::*;
use crate::store::tests::test_time;

fn writer(directory: &TempDir) -> Writer {
    let path = database::path(directory.path());
    Writer {
        transaction: Transaction::new(database::open_writer(&path, Fsync::Interval).unwrap()),
        path,
        fsync: Fsync::Interval,
        lock: DirectoryLock::acquire(directory.path(), test_time(0)).unwrap(),
        last_error: LastError::default(),
        unsynced: None,
        sync_error: None,
        failed_bytes: Cell::new(0),
    }
}

type Answer = oneshot::Receiver<Result<(), StoreError>>;

/// Creates a write of these statements, which adds a task of 10 bytes to the totals of `owner`.
fn statements((owner, sql): (&'static str, &'static str)) -> (Box<dyn Write>, Answer) {
    let (reply, answer) = oneshot::channel();
    let job = WriteJob {
        bytes: PROBE_BYTES,
        work: move |transaction: &Transaction| {
            transaction.add_to_totals(owner, 1, 10);
            Ok(transaction.execute_batch(sql)?)
        },
        outcome: None,
        after: |_: &()| {},
        reply,
    };
    (Box::new(job), answer)
}

fn last_error(writer: &Writer) -> Option<StoreError> {
    writer.last_error.lock().clone()
}

/// Commits statements of `ann` as one group, and returns the result of each.
fn committed<const N: usize>(
    writer: &Writer,
    sql: [&'static str; N],
) -> [Result<(), StoreError>; N] {
    committed_of(writer, sql.map(|sql| ("ann", sql)))
}

/// Commits statements of these clients as one group, and returns the result of each. No total remains for the next group.
fn committed_of<const N: usize>(
    writer: &Writer,
    sql: [(&'static str, &'static str); N],
) -> [Result<(), StoreError>; N] {
    let (group, answers): (Vec<_>, Vec<_>) = sql.into_iter().map(statements).unzip();
    writer.commit(group);
    assert_eq!(*writer.transaction.totals.borrow(), Totals::new());
    let answers: Vec<_> = answers
        .into_iter()
        .map(|mut answer| answer.try_recv().unwrap())
        .collect();
    answers.try_into().unwrap()
}

const CONTEXT: &str = "INSERT INTO contexts VALUES ('c', 'ann', 's')";

/// Returns the number of contexts, and the totals of all clients.
fn contents(writer: &Writer) -> (i64, i64, i64) {
    let count = "SELECT (SELECT count(*) FROM contexts), coalesce(sum(tasks), 0), coalesce(sum(bytes), 0) FROM totals";
    writer
        .transaction
        .query_row(count, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .unwrap()
}

#[test]
fn failed_write_is_reported_until_success() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = writer(&directory);
    let [good, bad] = committed(
        &writer,
        [CONTEXT, "INSERT INTO contexts VALUES (NULL, 'a', 's')"],
    );
    assert_eq!(good, Ok(()));
    assert_eq!(contents(&writer), (1, 1, 10), "a failed write adds nothing");
    let bad = bad.err();
    assert!(bad.is_some());
    assert_eq!(last_error(&writer), bad);
    writer.sync();
    assert_eq!(last_error(&writer), bad, "a sync writes nothing");
    let [_] = committed(&writer, ["DELETE FROM contexts"]);
    assert_eq!(last_error(&writer), None);
    assert_eq!(contents(&writer), (0, 2, 20));
}

#[test]
fn failed_savepoint_fails_the_group() {
    let directory = tempfile::tempdir().unwrap();
    let writer = writer(&directory);
    // The statement releases the savepoint, so the writer can neither roll back to it nor release it.
    for lost in ["RELEASE write; SELECT nothing", "RELEASE write"] {
        let all = committed(&writer, [CONTEXT, lost, "DELETE FROM contexts"]);
        assert!(all.iter().all(Result::is_err), "{all:?}");
        assert_eq!(contents(&writer), (0, 0, 0));
        assert_eq!(last_error(&writer), all[0].clone().err());
    }
}

#[test]
fn failed_sync_is_reported_and_retried() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = writer(&directory);
    let read_only = |writer: &Writer, is: bool| {
        writer
            .transaction
            .pragma_update(None, "query_only", is)
            .unwrap();
    };
    writer.unsynced = Some(Instant::now());
    read_only(&writer, true);
    writer.sync();
    assert!(writer.unsynced.is_some());
    let reported = last_error(&writer);
    assert!(reported.is_some());
    let synchronous = writer
        .transaction
        .pragma_query_value(None, "synchronous", |row| row.get(0));
    assert_eq!(synchronous, Ok(1), "NORMAL");
    read_only(&writer, false);
    // The write succeeds, but does not sync the earlier writes.
    let [written] = committed(&writer, [CONTEXT]);
    assert_eq!(written, Ok(()));
    assert_eq!(last_error(&writer), reported);
    writer.sync();
    assert_eq!(writer.unsynced, None);
    assert_eq!(last_error(&writer), None);
}

#[test]
fn refused_total_of_a_client_fails_only_its_writes() {
    let directory = tempfile::tempdir().unwrap();
    let writer = writer(&directory);
    writer
        .transaction
        .execute_batch(
            "CREATE TEMP TRIGGER refused BEFORE INSERT ON totals WHEN NEW.owner = 'bob'
             BEGIN SELECT RAISE(ABORT, 'refused'); END",
        )
        .unwrap();
    let sql = [
        ("ann", CONTEXT),
        ("bob", "INSERT INTO contexts VALUES ('d', 'bob', 's')"),
        ("eve", "INSERT INTO contexts VALUES ('e', 'eve', 's')"),
    ];
    let [ann, bob, eve] = committed_of(&writer, sql);
    assert_eq!((ann, eve), (Ok(()), Ok(())));
    assert_eq!(contents(&writer), (2, 2, 20));
    assert_eq!(last_error(&writer), bob.err());
    assert!(last_error(&writer).is_some_and(|error| error.to_string().contains("refused")));
}

#[test]
fn lost_transaction_counts_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let writer = writer(&directory);
    writer
        .transaction
        .execute_batch(
            "PRAGMA foreign_keys = 1;
             CREATE TEMP TABLE parents (id PRIMARY KEY);
             CREATE TEMP TABLE children (id REFERENCES parents (id) DEFERRABLE INITIALLY DEFERRED);
             CREATE TEMP TRIGGER ended BEFORE INSERT ON contexts WHEN NEW.id = 'ended'
             BEGIN SELECT RAISE(ROLLBACK, 'ended'); END",
        )
        .unwrap();
    let (unfit, ends) = (
        "INSERT INTO children VALUES (1)",
        "INSERT INTO contexts VALUES ('ended', 'ann', 's')",
    );
    // The transaction cannot begin, cannot commit, or ends early.
    for (before, last) in [("BEGIN", ""), ("", unfit), ("", ends)] {
        writer.transaction.execute_batch(before).unwrap();
        let lost = committed(&writer, [CONTEXT, last]);
        assert!(lost.iter().all(Result::is_err), "{before}{last}: {lost:?}");
        assert!(writer.transaction.is_autocommit(), "{before}{last}");
        assert_eq!(contents(&writer), (0, 0, 0), "{before}{last}");
    }
    let [ann] = committed(&writer, [CONTEXT]);
    assert_eq!((ann, contents(&writer)), (Ok(()), (1, 1, 10)));
}

#[test]
fn sync_of_a_full_disk_ends_no_error() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = writer(&directory);
    let set = |writer: &Writer, pragma: &str| writer.transaction.execute_batch(pragma).unwrap();
    set(&writer, "PRAGMA query_only = 1");
    writer.sync();
    assert!(writer.sync_error.is_some());
    set(&writer, "PRAGMA query_only = 0; PRAGMA max_page_count = 1");
    let large = "INSERT INTO contexts VALUES ('large', 'ann', hex(zeroblob(1000000)))";
    let [full] = committed(&writer, [large]);
    assert!(full.is_err());
    writer.sync();
    assert_eq!((writer.unsynced, &writer.sync_error), (None, &None));
    assert_eq!(last_error(&writer), full.err());
    set(&writer, "PRAGMA max_page_count = 1000000");
    assert_eq!(committed(&writer, [large]), [Ok(())]);
    assert_eq!(last_error(&writer), None);
}

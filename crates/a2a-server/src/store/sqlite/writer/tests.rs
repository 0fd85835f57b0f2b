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

/// Creates a write of these statements, which adds a task of 10 bytes to the totals of `ann`.
fn statements(sql: &'static str) -> (Box<dyn Write>, Answer) {
    let (reply, answer) = oneshot::channel();
    let job = WriteJob {
        bytes: 0,
        work: move |transaction: &Transaction| {
            transaction.add_to_totals("ann", 1, 10);
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

/// Commits these statements as one group, and returns the result of each.
fn committed<const N: usize>(
    writer: &Writer,
    sql: [&'static str; N],
) -> [Result<(), StoreError>; N] {
    let (group, answers): (Vec<_>, Vec<_>) = sql.into_iter().map(statements).unzip();
    writer.commit(group);
    let answers: Vec<_> = answers
        .into_iter()
        .map(|mut answer| answer.try_recv().unwrap())
        .collect();
    answers.try_into().unwrap()
}

const CONTEXT: &str = "INSERT INTO contexts VALUES ('c', 'ann', 's')";

/// Returns the number of contexts, and the totals of `ann`.
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

//! Lists and retention.

use std::time::Duration;

use a2a::v1_0::TaskState;
use bytes::Bytes;

use super::{SharedStore, all, append, artifact, create, ids, load, set_final_state, test_time};
use crate::store::{Budget, Cursor, Filter, Loaded, Retention, Summary, SummaryPage, body};
use crate::task_record::TaskChange;

pub(crate) async fn last_changed_comes_first(store: SharedStore) {
    let mut first = create(&store, "first", "ann", "c", 0).await;
    create(&store, "second", "ann", "c", 10).await;
    create(&store, "third", "ann", "c", 20).await;
    assert_eq!(ids(&store, &all()).await, ["third", "second", "first"]);
    set_final_state(&store, &mut first, TaskState::Completed, 30).await;
    assert_eq!(ids(&store, &all()).await, ["first", "third", "second"]);
    let listed = store.list(&all()).await.unwrap();
    assert_eq!(listed.tasks[0], Summary::new(&first));
}

pub(crate) async fn list_has_excerpts(store: SharedStore) {
    let mut made = create(&store, "t", "ann", "c", 0).await;
    let mut question = super::status(TaskState::InputRequired, 1);
    question.message = Some(super::message("m-1", &"which one? ".repeat(100)));
    append(&store, &mut made, TaskChange::Status(question), 1).await;
    let listed = store.list(&all()).await.unwrap().tasks;
    assert_eq!(listed, [Summary::new(&made)]);
    assert_eq!(listed[0].request_excerpt.as_deref(), Some("do it"));
    let status_excerpt = listed[0].status_excerpt.as_ref().unwrap().chars().count();
    assert!((200..=241).contains(&status_excerpt), "{status_excerpt}");
    append(
        &store,
        &mut made,
        TaskChange::Message(super::message("m-2", "that")),
        2,
    )
    .await;
    set_final_state(&store, &mut made, TaskState::Completed, 3).await;
    assert_eq!(
        store.list(&all()).await.unwrap().tasks,
        [Summary::new(&made)]
    );
}

pub(crate) async fn page_has_json_of_finished_tasks(store: SharedStore) {
    create(&store, "running", "ann", "c", 0).await;
    let mut done = create(&store, "done", "ann", "c", 0).await;
    create(&store, "other", "bob", "d", 0).await;
    let change = TaskChange::Artifact {
        artifact: artifact("a", "text"),
        append: false,
        last_chunk: true,
    };
    append(&store, &mut done, change, 1).await;
    set_final_state(&store, &mut done, TaskState::Completed, 2).await;
    for context_id in [None, Some("c".to_owned())] {
        let filter = Filter {
            owner: Some("ann".to_owned()),
            context_id,
            ..all()
        };
        let listed = store.list(&filter).await.unwrap();
        let page = store.page(&filter, 0).await.unwrap();
        assert_eq!((page.total, &page.next), (2, &None));
        let places: Vec<Cursor> = page.tasks.iter().map(|task| task.place.clone()).collect();
        let expected: Vec<Cursor> = listed.tasks.iter().map(Cursor::new).collect();
        assert_eq!(places, expected);
        let bodies = store.bodies(Some("ann"), &page.tasks).await.unwrap();
        let json = bodies[0].as_ref().unwrap();
        // Read with the page or not, it is the same.
        let filled = store.page(&filter, json.len()).await.unwrap();
        assert_eq!(filled.tasks[0].bytes, Some(json.len()));
        assert!([None, Some(json)].contains(&filled.tasks[0].json.as_ref()));
        assert_eq!(filled.tasks[1], page.tasks[1]);
        let none = store.page(&filter, json.len() - 1).await.unwrap();
        assert_eq!(none, page);
        assert_eq!(Some(json.len()), page.tasks[0].bytes);
        assert_eq!(body::decode_record(json).as_ref(), Ok(&done));
        assert_eq!(bodies[1], None);
    }
    assert_eq!(load(&store, "done").await.as_ref(), Some(&done));
    let json = match store.load_stored("done").await {
        Ok(Some(Loaded::Json(json))) => json,
        other => panic!("{other:?}"),
    };
    assert_eq!(body::encode(&done).unwrap(), json);
    let running = load(&store, "running").await.map(Box::new);
    let stored = store.load_stored("running").await.unwrap();
    assert_eq!(stored, running.map(Loaded::Record));
    assert_eq!(store.load_stored("unknown").await, Ok(None));
}

/// A page is complete however large or few its tasks are, and a task that is deleted after it has no JSON.
pub(crate) async fn page_lists_tasks_of_any_size(store: SharedStore) {
    let page = store.page(&all(), 0).await.unwrap();
    assert_eq!((page.tasks.len(), page.total), (0, 0));
    let sizes = [1, 1 << 20, 1];
    for (n, size) in (0..).zip(sizes) {
        let mut made = create(&store, &format!("t{n}"), "ann", "c", n).await;
        let change = TaskChange::Artifact {
            artifact: artifact("a", &"x".repeat(size)),
            append: false,
            last_chunk: true,
        };
        append(&store, &mut made, change, n).await;
        set_final_state(&store, &mut made, TaskState::Completed, n).await;
    }
    let page = store.page(&all(), 0).await.unwrap();
    assert_eq!((page.next, page.total), (None, 3));
    for (listed, size) in page.tasks.iter().zip(sizes) {
        assert!(
            listed
                .bytes
                .is_some_and(|bytes| (size..size + 1000).contains(&bytes))
        );
    }
    let bodies = store.bodies(None, &page.tasks).await.unwrap();
    let sizes = bodies.iter().map(|json| json.as_ref().map(Bytes::len));
    assert!(sizes.eq(page.tasks.iter().map(|listed| listed.bytes)));
    assert_eq!(store.delete("t2").await, Ok(true));
    assert_eq!(store.bodies(None, &page.tasks[..1]).await, Ok(vec![None]));
}

pub(crate) async fn filter_selects_owner(store: SharedStore) {
    create(&store, "a1", "ann", "c", 0).await;
    create(&store, "b1", "bob", "d", 1).await;
    create(&store, "a2", "ann", "e", 2).await;
    let of = |owner: &str| Filter {
        owner: Some(owner.to_owned()),
        ..all()
    };
    assert_eq!(ids(&store, &of("ann")).await, ["a2", "a1"]);
    assert_eq!(ids(&store, &of("bob")).await, ["b1"]);
    assert_eq!(ids(&store, &of("an")).await, [""; 0]);
    assert_eq!(store.list(&of("ann")).await.unwrap().total, 2);
    assert_eq!(store.list(&all()).await.unwrap().total, 3);
}

pub(crate) async fn filter_selects_context(store: SharedStore) {
    create(&store, "t1", "ann", "c", 0).await;
    create(&store, "t2", "ann", "d", 1).await;
    create(&store, "t3", "ann", "c", 2).await;
    create(&store, "t4", "bob", "e", 3).await;
    let of = |owner: Option<&str>, context: &str| Filter {
        owner: owner.map(str::to_owned),
        context_id: Some(context.to_owned()),
        ..all()
    };
    assert_eq!(ids(&store, &of(Some("ann"), "c")).await, ["t3", "t1"]);
    assert_eq!(ids(&store, &of(None, "c")).await, ["t3", "t1"]);
    assert_eq!(ids(&store, &of(Some("ann"), "e")).await, [""; 0]);
    assert_eq!(store.list(&of(Some("ann"), "c")).await.unwrap().total, 2);
}

pub(crate) async fn filter_selects_state(store: SharedStore) {
    let mut done = create(&store, "done", "ann", "c", 0).await;
    create(&store, "new", "ann", "c", 1).await;
    set_final_state(&store, &mut done, TaskState::Completed, 2).await;
    let of = |state| Filter {
        state: Some(state),
        ..all()
    };
    assert_eq!(ids(&store, &of(TaskState::Completed)).await, ["done"]);
    assert_eq!(ids(&store, &of(TaskState::Submitted)).await, ["new"]);
    assert_eq!(ids(&store, &of(TaskState::Failed)).await, [""; 0]);
    assert_eq!(
        store.list(&of(TaskState::Completed)).await.unwrap().total,
        1
    );
}

pub(crate) async fn filter_selects_by_status_timestamp(store: SharedStore) {
    let mut old = create(&store, "old", "ann", "c", 0).await;
    create(&store, "new", "ann", "c", 20).await;
    let change = TaskChange::Artifact {
        artifact: artifact("a", "late"),
        append: false,
        last_chunk: true,
    };
    append(&store, &mut old, change, 30).await;
    let after = |at| Filter {
        changed_after: Some(test_time(at)),
        ..all()
    };
    assert_eq!(ids(&store, &after(10)).await, ["new"]);
    assert_eq!(ids(&store, &after(25)).await, [""; 0]);
    assert_eq!(store.list(&after(10)).await.unwrap().total, 1);
}

/// Reads all pages, and awaits `between` after the first one.
async fn pages(store: &SharedStore, size: usize, between: impl AsyncFnOnce()) -> Vec<SummaryPage> {
    let mut between = Some(between);
    let mut filter = Filter {
        page_size: size,
        ..all()
    };
    let mut read = Vec::new();
    loop {
        let page = store.list(&filter).await.unwrap();
        assert!(page.tasks.len() <= size);
        filter.after.clone_from(&page.next);
        read.push(page);
        if filter.after.is_none() {
            return read;
        }
        if let Some(between) = between.take() {
            between().await;
        }
    }
}

fn read(pages: &[SummaryPage]) -> Vec<String> {
    let records = pages.iter().flat_map(|page| &page.tasks);
    records.map(|task| task.id.clone()).collect()
}

pub(crate) async fn pages_have_every_task_once(store: SharedStore) {
    for n in 0..7 {
        create(&store, &format!("t{n}"), "ann", "c", n).await;
    }
    let all = pages(&store, 3, async || {}).await;
    assert_eq!(read(&all), ["t6", "t5", "t4", "t3", "t2", "t1", "t0"]);
    assert_eq!(
        all.iter().map(|page| page.tasks.len()).collect::<Vec<_>>(),
        [3, 3, 1]
    );
    assert!(all.iter().all(|page| page.total == 7));
}

pub(crate) async fn task_changed_between_pages_comes_once(store: SharedStore) {
    let mut made = Vec::new();
    for n in 0..6 {
        made.push(create(&store, &format!("t{n}"), "ann", "c", n).await);
    }
    let all = pages(&store, 2, async || {
        // Change a task of the first page, and create a new task.
        set_final_state(&store, &mut made[5], TaskState::Completed, 50).await;
        create(&store, "new", "ann", "c", 60).await;
    })
    .await;
    assert_eq!(read(&all), ["t5", "t4", "t3", "t2", "t1", "t0"]);
}

pub(crate) async fn tasks_of_one_millisecond_are_all_listed(store: SharedStore) {
    for n in 0..25 {
        create(&store, &format!("t{n}"), "ann", "c", 5).await;
    }
    let all = read(&pages(&store, 4, async || {}).await);
    let mut ids: Vec<String> = (0..25).map(|n| format!("t{n}")).collect();
    ids.sort_unstable_by(|one, other| other.cmp(one));
    assert_eq!(all, ids);
}

pub(crate) async fn empty_store_lists_nothing(store: SharedStore) {
    let none = SummaryPage {
        tasks: Vec::new(),
        next: None,
        total: 0,
    };
    assert_eq!(store.list(&all()).await, Ok(none));
}

pub(crate) async fn prune_deletes_tasks_beyond_age(store: SharedStore) {
    for (id, at) in [("old", 0), ("older", -5_000), ("new", 60_000)] {
        let mut made = create(&store, id, "ann", "c", at - 10_000).await;
        set_final_state(&store, &mut made, TaskState::Completed, at).await;
    }
    let retention = Retention {
        age: Duration::from_secs(60),
        count: 1_000,
    };
    assert_eq!(store.prune(&retention, test_time(60_001)).await, Ok(2));
    assert_eq!(ids(&store, &all()).await, ["new"]);
    assert_eq!(load(&store, "old").await, None);
    assert_eq!(store.prune(&retention, test_time(60_001)).await, Ok(0));
}

pub(crate) async fn prune_keeps_the_last_ended(store: SharedStore) {
    for n in 0..10 {
        let mut made = create(&store, &format!("t{n}"), "ann", "c", n).await;
        // The tasks end in the reverse order of their creation.
        set_final_state(&store, &mut made, TaskState::Failed, 100 - n).await;
    }
    let retention = Retention {
        age: Duration::from_secs(60),
        count: 3,
    };
    assert_eq!(store.prune(&retention, test_time(200)).await, Ok(7));
    assert_eq!(ids(&store, &all()).await, ["t0", "t1", "t2"]);
}

pub(crate) async fn prune_counts_each_client(store: SharedStore) {
    for n in 0..3 {
        let mut made = create(&store, &format!("bob-{n}"), "bob", "d", n).await;
        set_final_state(&store, &mut made, TaskState::Completed, n).await;
    }
    for n in 0..400 {
        let mut made = create(&store, &format!("ann-{n:03}"), "ann", "c", 10 + n).await;
        set_final_state(&store, &mut made, TaskState::Completed, 10 + n).await;
    }
    let retention = Retention {
        age: Duration::from_secs(60),
        count: 100,
    };
    assert_eq!(store.prune(&retention, test_time(500)).await, Ok(300));
    let of = |owner: &str| Filter {
        owner: Some(owner.to_owned()),
        ..all()
    };
    assert_eq!(ids(&store, &of("bob")).await, ["bob-2", "bob-1", "bob-0"]);
    let remaining = ids(&store, &of("ann")).await;
    assert_eq!((remaining.len(), remaining[99].as_str()), (100, "ann-300"));
}

pub(crate) async fn prune_keeps_unfinished_tasks(store: SharedStore) {
    let mut waits = create(&store, "waits", "ann", "c", 0).await;
    let waiting = TaskChange::Status(super::status(TaskState::InputRequired, 1));
    append(&store, &mut waits, waiting, 1).await;
    let mut done = create(&store, "done", "ann", "c", 2).await;
    set_final_state(&store, &mut done, TaskState::Completed, 3).await;
    let retention = Retention {
        age: Duration::from_millis(1),
        count: 0,
    };
    assert_eq!(store.prune(&retention, test_time(86_400_000)).await, Ok(1));
    assert_eq!(ids(&store, &all()).await, ["waits"]);
}

/// Creates terminal tasks of about `bytes` each.
async fn large(store: &SharedStore, owner: &str, count: i64, bytes: usize) {
    for n in 0..count {
        let id = format!("{owner}-{n}");
        let mut made = super::record(&id, owner, owner, n);
        made.task.history = Some(vec![super::message(&id, &"x".repeat(bytes))]);
        store.create(&made).await.unwrap();
        set_final_state(store, &mut made, TaskState::Completed, n).await;
    }
}

pub(crate) async fn make_room_deletes_own_ended_tasks(store: SharedStore) {
    large(&store, "bob", 2, 10_000).await;
    large(&store, "ann", 4, 10_000).await;
    let budget = Budget {
        per_client: 50_000,
        total: 1_000_000,
    };
    assert_eq!(store.make_room("ann", 5_000, &budget, true).await, Ok(true));
    assert_eq!(ids(&store, &all()).await.len(), 6);
    // The store has to delete the two oldest tasks of the client.
    assert_eq!(
        store.make_room("ann", 25_000, &budget, true).await,
        Ok(true)
    );
    let remaining = ids(&store, &all()).await;
    assert_eq!(remaining, ["ann-3", "ann-2", "bob-1", "bob-0"]);
}

pub(crate) async fn make_room_deletes_none_if_others_fill_total(store: SharedStore) {
    large(&store, "bob", 2, 10_000).await;
    large(&store, "ann", 2, 10_000).await;
    let budget = Budget {
        per_client: 40_000,
        total: 50_000,
    };
    // The client is within its share, so its tasks remain.
    assert_eq!(
        store.make_room("ann", 9_000, &budget, true).await,
        Ok(false)
    );
    assert_eq!(ids(&store, &all()).await.len(), 4);
    // The bytes above the client's share are enough for the total.
    let budget = Budget {
        per_client: 25_000,
        ..budget
    };
    assert_eq!(store.make_room("ann", 9_000, &budget, true).await, Ok(true));
    assert_eq!(ids(&store, &all()).await, ["bob-1", "ann-1", "bob-0"]);
}

pub(crate) async fn make_room_without_forget_deletes_none(store: SharedStore) {
    large(&store, "ann", 2, 10_000).await;
    let budget = Budget {
        per_client: 25_000,
        total: 1_000_000,
    };
    assert_eq!(
        store.make_room("ann", 9_000, &budget, false).await,
        Ok(true)
    );
    assert_eq!(ids(&store, &all()).await.len(), 2);
}

pub(crate) async fn make_room_deletes_none_if_insufficient(store: SharedStore) {
    large(&store, "bob", 5, 10_000).await;
    large(&store, "ann", 1, 10_000).await;
    create(&store, "open", "ann", "c", 9).await;
    let budget = Budget {
        per_client: 100_000,
        total: 55_000,
    };
    for (owner, bytes) in [("ann", 6_000), ("cid", 1_000), ("bob", 100_000)] {
        let fits = store.make_room(owner, bytes, &budget, true).await;
        assert_eq!(fits, Ok(false), "{owner}");
    }
    assert_eq!(ids(&store, &all()).await.len(), 7);
}

pub(crate) async fn deleted_tasks_free_their_bytes(store: SharedStore) {
    let budget = Budget {
        per_client: 20_000,
        total: 20_000,
    };
    for round in 0..3 {
        let mut made = create(&store, "t", "ann", "c", round).await;
        for n in 0..100 {
            let change = TaskChange::Artifact {
                artifact: artifact("a", &"y".repeat(50)),
                append: n > 0,
                last_chunk: false,
            };
            append(&store, &mut made, change, round).await;
        }
        // Loading compacts the changes of the task.
        load(&store, "t").await.unwrap();
        append(&store, &mut made, TaskChange::Run("r".to_owned()), round).await;
        assert_eq!(
            store.make_room("ann", 19_000, &budget, true).await,
            Ok(false)
        );
        assert_eq!(store.delete("t").await, Ok(true));
        assert_eq!(
            store.make_room("ann", 20_000, &budget, true).await,
            Ok(true)
        );
    }
}

pub(crate) async fn unanswered_tasks_are_found(store: SharedStore) {
    let states = [
        ("asks", TaskState::InputRequired, 10),
        ("locked", TaskState::AuthRequired, 20),
        ("works", TaskState::Working, 10),
        ("done", TaskState::Completed, 10),
        ("late", TaskState::InputRequired, 60),
    ];
    for (id, state, at) in states {
        let mut made = create(&store, id, "ann", "c", 0).await;
        set_final_state(&store, &mut made, state, at).await;
    }
    let found = async |before, skip, limit| {
        let found = store.unanswered(super::ms(before), skip, limit).await;
        found.unwrap().join(" ")
    };
    assert_eq!(found(50, 0, 10).await, "asks locked");
    assert_eq!(found(50, 0, 1).await, "asks");
    assert_eq!(found(50, 1, 1).await, "locked");
    assert_eq!(found(50, 2, 1).await, "");
    assert_eq!(found(10, 0, 10).await, "");
}

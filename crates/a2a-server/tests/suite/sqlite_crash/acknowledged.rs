//! The changes that a writer acknowledged, and the check that they are stored.

use std::collections::BTreeMap;
use std::path::Path;

use a2a_server::store::sqlite::{Options, SqliteStore, check};
use a2a_server::store::{Filter, TaskStore};

use super::script;

/// The acknowledged changes.
#[derive(Default)]
pub(crate) struct Acknowledged {
    tasks: BTreeMap<String, Known>,
    /// The number of acknowledged changes.
    pub(crate) changes: usize,
}

#[derive(Default)]
struct Known {
    revision: u64,
    configured: bool,
    deleting: bool,
    deleted: bool,
}

impl Acknowledged {
    /// Records a line of a writer.
    pub(crate) fn record(&mut self, line: &str) {
        let fields: Vec<&str> = line.split(' ').collect();
        let known = self.tasks.entry(fields[1].to_owned()).or_default();
        match fields[..] {
            ["stored", _, revision] => {
                known.revision = revision.parse().unwrap();
                self.changes += 1;
            }
            ["configured", _] => known.configured = true,
            ["deleting", _] => known.deleting = true,
            ["deleted", _] => known.deleted = true,
            _ => panic!("{line}"),
        }
    }

    pub(crate) fn tasks(&self) -> usize {
        self.tasks.len()
    }

    pub(crate) fn configurations(&self) -> usize {
        self.tasks.values().filter(|known| known.configured).count()
    }

    pub(crate) fn deletions(&self) -> usize {
        self.tasks.values().filter(|known| known.deleted).count()
    }

    /// Opens the directory and compares.
    pub(crate) fn assert_stored(&mut self, directory: &Path) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let options = Options::new(directory);
            let store = SqliteStore::open(&options, chrono::DateTime::UNIX_EPOCH).unwrap();
            assert_eq!(check(directory), Ok(Vec::new()));
            let mut expected_unfinished = 0;
            let mut present = 0;
            for (id, known) in &mut self.tasks {
                let found = store.load(id).await.unwrap();
                if known.deleted {
                    assert_eq!(found, None, "{id} was deleted");
                    continue;
                }
                let Some(found) = found else {
                    assert!(known.deleting, "{id} is lost");
                    known.deleted = true;
                    continue;
                };
                // The last change may be stored without its acknowledgement.
                let max = known.revision + 1;
                assert!(
                    (known.revision..=max).contains(&found.revision),
                    "{id}: {known:?} and {}",
                    found.revision
                );
                known.revision = found.revision;
                assert_eq!(found, script::after(id, found.revision));
                present += 1;
                expected_unfinished += usize::from(!found.is_terminal());
                if known.configured {
                    let pushes = store.pushes(id).await.unwrap();
                    let pushes: Vec<_> = pushes.into_iter().map(|(push, _)| push).collect();
                    assert_eq!(pushes, [script::configuration(id)]);
                }
                let context = format!("context-of-{id}");
                let owner = store
                    .get_or_create_context(&context, "eve", "x")
                    .await
                    .unwrap()
                    .owner;
                assert_eq!(owner, found.owner);
            }
            let unfinished = store.recover().await.unwrap();
            let listed = store.list(&all()).await.unwrap().total;
            // Each writer may have created one task without its acknowledgement.
            assert!(
                (present..present + 200).contains(&listed),
                "{present} acknowledged, {listed} listed"
            );
            assert!(
                unfinished.len() >= expected_unfinished,
                "{expected_unfinished} unsettled, {} recovered",
                unfinished.len()
            );
            store.close().await.unwrap();
        });
    }
}

impl std::fmt::Debug for Known {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "revision {} acknowledged", self.revision)
    }
}

fn all() -> Filter {
    Filter {
        owner: None,
        context_id: None,
        state: None,
        changed_after: None,
        page_size: 1,
        after: None,
    }
}

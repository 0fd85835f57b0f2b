//! Writes many tasks concurrently, and prints each acknowledged change. Runs until it is killed.

use std::io::Write as _;
use std::sync::Arc;

use a2a::Version;
use a2a_server::store::sqlite::{Options, SqliteStore};
use a2a_server::store::{StoreError, TaskStore};
use base::files::Fsync;

use super::script;

const WRITERS: usize = 16;

pub(crate) fn write(directory: &str, fsync: Fsync, round: &str) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let mut options = Options::new(directory);
        options.fsync = fsync;
        let store = Arc::new(SqliteStore::open(&options, chrono::DateTime::UNIX_EPOCH).unwrap());
        let writers = (0..WRITERS).map(|writer| {
            let store = Arc::clone(&store);
            let name = format!("{round}.{writer}");
            tokio::spawn(async move {
                for number in 0_u64.. {
                    let id = format!("{name}.{number}");
                    write_task(&store, &id, number).await.unwrap();
                }
            })
        });
        futures_util::future::join_all(writers).await;
    });
}

/// The numbers of the tasks of [`write_few`].
const FEW: [u64; 3] = [1, 3, 7];

/// Writes a few tasks in turn. If the disk is full, continues with the next one.
pub(crate) fn write_few(directory: &str) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let mut options = Options::new(directory);
        options.fsync = Fsync::Always;
        let open = || SqliteStore::open(&options, chrono::DateTime::UNIX_EPOCH);
        let store = open().or_else(|_| open()).unwrap();
        for number in FEW {
            let _ = write_task(&store, &format!("few.{number}"), number).await;
        }
        let _ = store.close().await;
    });
}

/// Makes the kernel kill this process when a file grows beyond `largest` bytes.
pub(crate) fn limit_files(largest: u64) {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, setrlimit};
        let (current, maximum) = (Some(largest), Some(largest));
        setrlimit(Resource::Fsize, Rlimit { current, maximum }).unwrap();
    }
}

/// Runs a task. One in four is deleted, one in four is left unfinished.
async fn write_task(store: &SqliteStore, id: &str, number: u64) -> Result<(), StoreError> {
    let mut record = script::new_record(id);
    store.create(&record).await?;
    print_line(&format!("stored {id} 0"));
    let end = if number % 4 == 1 { 6 } else { script::CHANGES };
    while record.revision < end {
        let revision = record.revision;
        let (change, at_ms) = (script::change(id, revision), script::at_ms(revision));
        let changes = std::slice::from_ref(&change);
        record.apply(change.clone(), at_ms);
        match record.is_terminal() {
            true => store.finish(&record, changes).await?,
            false => store.append(id, revision, at_ms, changes).await?,
        }
        print_line(&format!("stored {id} {}", record.revision));
        if revision == 4 {
            let configuration = script::configuration(id);
            store.put_push(&configuration, Version::V1_0).await?;
            print_line(&format!("configured {id}"));
        }
    }
    if number % 4 == 3 {
        print_line(&format!("deleting {id}"));
        store.delete(id).await?;
        print_line(&format!("deleted {id}"));
    }
    Ok(())
}

/// One line in one write, so that readers see whole lines.
fn print_line(line: &str) {
    let mut out = std::io::stderr().lock();
    out.write_all(format!("{line}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

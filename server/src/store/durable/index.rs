//! What is in memory of the tasks of a journal: all of those that are not settled, and of the settled ones what lists go by
//! and where their line is.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::ops::Bound;
use std::sync::Arc;

use a2a::TaskState;
use chrono::{DateTime, Utc};

use super::files::Place;
use super::line::Kept;
use crate::record::Record;
use crate::store::{Context, Cursor, Filter, Retention, StoreError};

/// A place in the order of lists.
pub(super) type Rank = (i64, Arc<str>);

/// A task.
#[derive(Debug)]
pub(super) struct Task {
    owner: Arc<str>,
    context: Arc<str>,
    state: TaskState,
    /// When its status was reached.
    stood: Option<DateTime<Utc>>,
    changed_ms: i64,
    /// How many bytes of the journal it needs.
    needed: u64,
    pub(super) body: Body,
}

/// Where the rest of a task is.
#[derive(Debug)]
pub(super) enum Body {
    /// It is not settled.
    Live(Box<Live>),
    /// It is settled, and this line has it whole.
    Settled(Place),
}

/// A task that is not settled.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) record: Record,
    pub(super) pushes: Vec<Kept>,
}

#[derive(Debug)]
struct Opened {
    context: Context,
    tasks: usize,
}

/// All tasks and contexts.
#[derive(Debug, Default)]
pub(super) struct Index {
    tasks: HashMap<Arc<str>, Task>,
    order: BTreeSet<Rank>,
    by_owner: HashMap<Arc<str>, BTreeSet<Rank>>,
    settled: usize,
    contexts: HashMap<String, Opened>,
    /// Tasks that cannot be read, and why.
    pub(super) damaged: HashMap<String, String>,
    /// The files of the journal.
    pub(super) files: HashMap<u64, Arc<File>>,
    /// How many bytes of the journal are needed.
    pub(super) needed: u64,
}

/// What the index has to know of a task.
pub(super) struct Facts<'a> {
    pub(super) id: &'a str,
    pub(super) owner: &'a str,
    pub(super) context: &'a str,
    pub(super) session: &'a str,
    pub(super) state: TaskState,
    pub(super) stood: Option<DateTime<Utc>>,
    pub(super) changed_ms: i64,
    pub(super) needed: u64,
}

impl Index {
    pub(super) fn get(&self, id: &str) -> Option<&Task> {
        self.tasks.get(id)
    }

    pub(super) fn live(&mut self, id: &str) -> Option<&mut Live> {
        match &mut self.tasks.get_mut(id)?.body {
            Body::Live(live) => Some(live),
            Body::Settled(_) => None,
        }
    }

    /// Why a task cannot be read, where it is damaged.
    pub(super) fn unreadable(&self, id: &str) -> Option<StoreError> {
        self.damaged.get(id).map(|why| unreadable(id, why))
    }

    /// The ids of those that are not settled.
    pub(super) fn unsettled(&self) -> Vec<String> {
        let live = self
            .tasks
            .iter()
            .filter(|(_, task)| matches!(task.body, Body::Live(_)));
        live.map(|(id, _)| id.as_ref().to_owned()).collect()
    }

    /// Takes a task that is in memory, and needs so many bytes of the journal.
    pub(super) fn put_live(&mut self, live: Live, needed: u64) {
        let record = &live.record;
        let names = (
            record.task.id.clone(),
            record.owner.clone(),
            record.task.context_id.clone(),
            record.session.clone(),
        );
        let facts = Facts {
            id: &names.0,
            owner: &names.1,
            context: &names.2,
            session: &names.3,
            state: record.task.status.state.clone(),
            stood: record.task.status.timestamp,
            changed_ms: record.changed_ms,
            needed,
        };
        self.put(facts, Body::Live(Box::new(live)));
    }

    /// Takes a settled task, which the line at `place` has whole.
    pub(super) fn put_settled(&mut self, record: &Record, place: Place) {
        let facts = Facts {
            id: &record.task.id,
            owner: &record.owner,
            context: &record.task.context_id,
            session: &record.session,
            state: record.task.status.state.clone(),
            stood: record.task.status.timestamp,
            changed_ms: record.changed_ms,
            needed: place.bytes(),
        };
        self.put(facts, Body::Settled(place));
    }

    /// The line of a settled task is somewhere else now.
    pub(super) fn moved(&mut self, id: &str, place: Place) {
        if let Some(task) = self.tasks.get_mut(id) {
            task.body = Body::Settled(place);
        }
    }

    /// Takes a task, in place of what was known of it.
    pub(super) fn put(&mut self, facts: Facts<'_>, body: Body) {
        let context = self.open(facts.context, facts.owner, facts.session);
        context.tasks += 1;
        self.remove(facts.id);
        let (id, owner) = match self.by_owner.get_key_value(facts.owner) {
            Some((owner, _)) => (Arc::from(facts.id), owner.clone()),
            None => (Arc::from(facts.id), Arc::from(facts.owner)),
        };
        let rank = (facts.changed_ms, Arc::clone(&id));
        self.order.insert(rank.clone());
        self.by_owner.entry(owner.clone()).or_default().insert(rank);
        self.needed += facts.needed;
        self.settled += usize::from(matches!(body, Body::Settled(_)));
        let task = Task {
            owner,
            context: Arc::from(facts.context),
            state: facts.state,
            stood: facts.stood,
            changed_ms: facts.changed_ms,
            needed: facts.needed,
            body,
        };
        self.tasks.insert(id, task);
    }

    /// A live task has changed, and needs so many bytes more of the journal.
    pub(super) fn changed(&mut self, id: &str, more: u64) {
        let Some((id, task)) = self.tasks.get_key_value(id) else {
            return;
        };
        let (id, before) = (Arc::clone(id), (task.changed_ms, Arc::clone(id)));
        let Some(task) = self.tasks.get_mut(&id) else {
            return;
        };
        task.needed += more;
        self.needed += more;
        let Body::Live(live) = &task.body else {
            return;
        };
        if task.state != live.record.task.status.state {
            task.state = live.record.task.status.state.clone();
        }
        task.stood = live.record.task.status.timestamp;
        if task.changed_ms == live.record.changed_ms {
            return;
        }
        task.changed_ms = live.record.changed_ms;
        let after = (task.changed_ms, id);
        if let Some(own) = self.by_owner.get_mut(&task.owner) {
            own.remove(&before);
            own.insert(after.clone());
        }
        self.order.remove(&before);
        self.order.insert(after);
    }

    /// A task needs that many bytes of the journal now.
    pub(super) fn needs(&mut self, id: &str, bytes: u64) {
        if let Some(task) = self.tasks.get_mut(id) {
            self.needed = self.needed - task.needed + bytes;
            task.needed = bytes;
        }
    }

    /// Forgets a task, and its context with the last one of it.
    pub(super) fn remove(&mut self, id: &str) -> bool {
        let Some((id, task)) = self.tasks.remove_entry(id) else {
            return false;
        };
        let rank = (task.changed_ms, id);
        self.order.remove(&rank);
        if let Some(own) = self.by_owner.get_mut(&task.owner) {
            own.remove(&rank);
            if own.is_empty() {
                self.by_owner.remove(&task.owner);
            }
        }
        self.needed -= task.needed;
        self.settled -= usize::from(matches!(task.body, Body::Settled(_)));
        if let Entry::Occupied(mut opened) = self.contexts.entry(task.context.as_ref().to_owned()) {
            opened.get_mut().tasks -= 1;
            if opened.get().tasks == 0 {
                opened.remove();
            }
        }
        true
    }

    /// Whose a context is.
    pub(super) fn context(&self, id: &str) -> Option<&Context> {
        self.contexts.get(id).map(|opened| &opened.context)
    }

    /// Gives a context to `owner`, unless it is somebody's.
    pub(super) fn claim(&mut self, id: &str, owner: &str, session: &str) -> Context {
        self.open(id, owner, session).context.clone()
    }

    /// Forgets a context that has no task.
    pub(super) fn forget_unused(&mut self, id: &str) {
        if self
            .contexts
            .get(id)
            .is_some_and(|opened| opened.tasks == 0)
        {
            self.contexts.remove(id);
        }
    }

    fn open(&mut self, id: &str, owner: &str, session: &str) -> &mut Opened {
        self.contexts
            .entry(id.to_owned())
            .or_insert_with(|| Opened {
                context: Context {
                    owner: owner.to_owned(),
                    session: session.to_owned(),
                },
                tasks: 0,
            })
    }

    /// The tasks of a page in order, whether there are more, and how many there are on all pages.
    pub(super) fn page(&self, filter: &Filter) -> (Vec<Rank>, bool, usize) {
        let ranks = match &filter.owner {
            None => Some(&self.order),
            Some(owner) => self.by_owner.get(owner.as_str()),
        };
        let Some(ranks) = ranks else {
            return (Vec::new(), false, 0);
        };
        let upto = match &filter.after {
            None => Bound::Unbounded,
            Some(Cursor {
                changed_ms,
                task_id,
            }) => Bound::Excluded((*changed_ms, Arc::from(task_id.as_str()))),
        };
        let mut found = ranks
            .range((Bound::Unbounded, upto))
            .rev()
            .filter(|(_, id)| self.takes(filter, id));
        let page: Vec<_> = found.by_ref().take(filter.page_size).cloned().collect();
        let more = found.next().is_some();
        let total = match filter {
            Filter {
                context_id: None,
                state: None,
                changed_after: None,
                ..
            } => ranks.len(),
            _ => ranks
                .iter()
                .filter(|(_, id)| self.takes(filter, id))
                .count(),
        };
        (page, more, total)
    }

    fn takes(&self, filter: &Filter, id: &str) -> bool {
        let Some(task) = self.tasks.get(id) else {
            return false;
        };
        filter
            .context_id
            .as_deref()
            .is_none_or(|context| context == task.context.as_ref())
            && filter
                .state
                .as_ref()
                .is_none_or(|state| *state == task.state)
            && filter
                .changed_after
                .is_none_or(|after| task.stood.is_some_and(|stood| stood >= after))
    }

    /// Settled tasks that retention does not keep.
    pub(super) fn outlived(&self, retention: &Retention, now: DateTime<Utc>) -> Vec<String> {
        let age = i64::try_from(retention.age.as_millis()).unwrap_or(i64::MAX);
        let oldest = now.timestamp_millis().saturating_sub(age);
        let too_many = self.settled.saturating_sub(retention.count);
        let settled = self.order.iter().filter(|(_, id)| {
            let task = self.tasks.get(id);
            task.is_some_and(|task| matches!(task.body, Body::Settled(_)))
        });
        settled
            .enumerate()
            .take_while(|(place, (changed_ms, _))| *place < too_many || *changed_ms < oldest)
            .map(|(_, (_, id))| id.as_ref().to_owned())
            .collect()
    }
}

/// A task cannot be read.
pub(super) fn unreadable(id: &str, why: &str) -> StoreError {
    StoreError::Failed(format!(
        "the task `{id}` cannot be read: {why}; delete it, or restore the directory of the task store from a copy"
    ))
}

-- One row a task: what lists and retention go by, and the record of a terminal task. The body of a running task is in
-- `log`, so that a change rewrites no large row.
CREATE TABLE tasks (
  key INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  owner TEXT NOT NULL,
  context TEXT NOT NULL,
  agent TEXT,
  state TEXT NOT NULL,
  -- 0: a server works on it, 1: it waits for its client, 2: terminal.
  phase INTEGER NOT NULL,
  -- Since when the status holds, in microseconds since 1970.
  since_us INTEGER,
  created_ms INTEGER NOT NULL,
  changed_ms INTEGER NOT NULL,
  revision INTEGER NOT NULL,
  -- What `body` and its rows in `log` and `pushes` hold.
  bytes INTEGER NOT NULL,
  -- Excerpts of the first message and of the status message.
  asked TEXT,
  says TEXT,
  -- The record of a terminal task as JSON, with its CRC-32. Earlier versions left it in `log`, until its next use.
  sum INTEGER,
  body BLOB
) STRICT;
CREATE INDEX tasks_by_change ON tasks (changed_ms, id);
-- With `bytes`, to add them up without reading the table.
CREATE INDEX tasks_by_owner ON tasks (owner, changed_ms, id, bytes);
-- With what a list of a context needs, to count and sort its tasks without reading the table.
CREATE INDEX tasks_of_context ON tasks (context, owner, changed_ms, id);
CREATE INDEX tasks_open ON tasks (phase) WHERE phase < 2;

-- The first row of a task is the record at that revision, the others are the changes after it, all as JSON.
-- `sum` is the CRC-32 of `body`.
CREATE TABLE log (
  task INTEGER NOT NULL,
  revision INTEGER NOT NULL,
  at_ms INTEGER NOT NULL,
  sum INTEGER NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (task, revision)
) STRICT, WITHOUT ROWID;

CREATE TABLE contexts (
  id TEXT NOT NULL PRIMARY KEY,
  owner TEXT NOT NULL,
  session TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE pushes (
  task INTEGER NOT NULL,
  config TEXT NOT NULL,
  place INTEGER NOT NULL,
  version TEXT NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (task, config)
) STRICT, WITHOUT ROWID;

-- What the tasks of each client take up, so that no server counts them at its start. Each write adds to it, because
-- triggers take four times as long.
CREATE TABLE totals (
  owner TEXT NOT NULL PRIMARY KEY,
  tasks INTEGER NOT NULL,
  bytes INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO totals (owner, tasks, bytes) SELECT owner, count(*), sum(bytes) FROM tasks GROUP BY owner;

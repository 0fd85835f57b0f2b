-- What the tasks of each client take up, so that no server counts them at its start.
CREATE TABLE totals (
  owner TEXT NOT NULL PRIMARY KEY,
  tasks INTEGER NOT NULL,
  bytes INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TRIGGER IF NOT EXISTS task_inserted AFTER INSERT ON tasks BEGIN
  INSERT INTO totals (owner, tasks, bytes) VALUES (NEW.owner, 1, NEW.bytes)
    ON CONFLICT (owner) DO UPDATE SET tasks = tasks + 1, bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER IF NOT EXISTS task_resized AFTER UPDATE OF bytes ON tasks BEGIN
  UPDATE totals SET bytes = bytes + NEW.bytes - OLD.bytes WHERE owner = NEW.owner;
END;
CREATE TRIGGER IF NOT EXISTS task_deleted AFTER DELETE ON tasks BEGIN
  UPDATE totals SET tasks = tasks - 1, bytes = bytes - OLD.bytes WHERE owner = OLD.owner;
  DELETE FROM totals WHERE owner = OLD.owner AND tasks = 0;
END;
INSERT INTO totals (owner, tasks, bytes) SELECT owner, count(*), sum(bytes) FROM tasks GROUP BY owner;

-- A ledger: judgements in the order in which they were made, never changed.
PRAGMA application_id = 0x52554C44; -- "RULD"
PRAGMA user_version = 1;
CREATE TABLE judgements (
    number INTEGER PRIMARY KEY,
    key TEXT NOT NULL,
    judge TEXT NOT NULL,
    task_id TEXT NOT NULL,
    replicate INTEGER NOT NULL,
    rubric_sha256 TEXT NOT NULL,
    passage_sha256 TEXT NOT NULL,
    question_sha256 TEXT NOT NULL,
    response TEXT NOT NULL,
    outcome TEXT NOT NULL,
    recorded_at REAL NOT NULL,
    result TEXT NOT NULL,
    check_sum BLOB NOT NULL
) STRICT;
CREATE INDEX settled ON judgements (key, number) WHERE outcome <> 'unavailable';
CREATE TRIGGER no_update BEFORE UPDATE ON judgements
    BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END;
CREATE TRIGGER no_delete BEFORE DELETE ON judgements
    BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END;

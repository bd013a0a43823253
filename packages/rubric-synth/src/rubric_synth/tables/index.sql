-- Where the calls and the outcome of each document lie, and what the calls took.
BEGIN;
PRAGMA user_version = 3;
CREATE TABLE calls (
    document BLOB, key BLOB, segment INTEGER, offset INTEGER, length INTEGER,
    stage TEXT, answered INTEGER, attempts INTEGER, fallback INTEGER,
    prompt_tokens INTEGER, completion_tokens INTEGER, cached_tokens INTEGER, cost_usd REAL,
    PRIMARY KEY (document, key)
) WITHOUT ROWID;
CREATE TABLE outcomes (
    document BLOB, settings BLOB, segment INTEGER, offset INTEGER, length INTEGER, settled INTEGER,
    PRIMARY KEY (document, settings)
) WITHOUT ROWID;
CREATE TABLE extents (
    kind TEXT, segment INTEGER, bytes INTEGER, PRIMARY KEY (kind, segment)
) WITHOUT ROWID;
CREATE TABLE notes (name TEXT PRIMARY KEY, content TEXT) WITHOUT ROWID;
COMMIT;

-- A library of version 1, as its first migration makes it, with two samples.
PRAGMA application_id = 1296649282;
PRAGMA user_version = 1;
CREATE TABLE samples (
    key TEXT PRIMARY KEY, kernel TEXT NOT NULL, variant TEXT NOT NULL, op TEXT NOT NULL, "group" TEXT NOT NULL,
    structure TEXT NOT NULL, knobs TEXT NOT NULL, layouts TEXT NOT NULL, precision TEXT NOT NULL, isa TEXT NOT NULL,
    cpu TEXT NOT NULL, threads INTEGER NOT NULL, dims TEXT NOT NULL, features TEXT NOT NULL, seconds REAL NOT NULL,
    spread REAL NOT NULL, share_of_peak REAL NOT NULL, peak REAL NOT NULL, rounds INTEGER NOT NULL,
    status TEXT NOT NULL, turns TEXT NOT NULL, protocol INTEGER NOT NULL, compiler TEXT NOT NULL, made TEXT NOT NULL
);
INSERT INTO samples VALUES (
    'aa01', 'conv_direct', 'tiled', 'Conv', 'Conv(%0: float32[1, 8, 9, 9])', 's1', '{"rows":4}', '{"in0":"b8@1"}',
    'float32', 'x86-64-v3', 'Some CPU', 1, '[1,8,9,9]', '{"flops":1000.0}', 0.002, 1e-05, 0.5, 9.8e10, 15, 'ok',
    '[[0.002,9.8e10],[0.0021,9.7e10]]', 1, 'ziglang 0.17.1', '2026-11-01T10:00:00Z');
INSERT INTO samples VALUES (
    'aa02', 'conv_direct', 'tiled', 'Conv', 'Conv(%0: float32[1, 8, 9, 9])', 's1', '{"rows":9}', '{}', 'float32',
    'x86-64-v3', 'Some CPU', 1, '[1,8,9,9]', '{}', 9e999, 0.0, 0.0, 0.0, 0, 'killed by SIGILL', '[]', 1,
    'ziglang 0.17.1', '2026-11-01T10:00:01Z');

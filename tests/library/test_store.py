"""The library gives back what it was given, by every question that is asked of it."""

from __future__ import annotations

import sqlite3
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from meta_infer.library.decisions import DECISION_FIELDS, Decision
from meta_infer.library.explain import contests_of
from meta_infer.library.near import best_first
from meta_infer.library.samples import SAMPLE_FIELDS, Sample, is_better
from meta_infer.library.schema import VERSION
from meta_infer.library.store import Counts, Library, Merged
from meta_infer.support.errors import LibraryError, UsageError
from meta_infer.support.switches import read_switches
from tests.library.made_up import GROUP, decision, failed, found_plan, sample

HERE = Path(__file__).parent


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "new" / "library.sqlite"


def test_every_field_has_its_kind() -> None:
    assert sorted(SAMPLE_FIELDS) == sorted(f.name for f in fields(Sample))
    assert sorted(DECISION_FIELDS) == sorted(f.name for f in fields(Decision))


def test_what_goes_in_comes_out(path: Path) -> None:
    made, broken, won = sample("a1"), failed("b2"), decision()
    with Library.open(path) as library:
        assert library.writable and library.counts() == Counts(0, 0)
        library.add([made, broken])
        library.decide([won])
    with Library.open(path) as library:
        assert library.known(["b2", "a1", "nothing"]) == {"a1": made, "b2": broken}
        assert library.decisions() == [won] and library.counts() == Counts(2, 1)
    assert not path.with_name(path.name + "-wal").exists()


def test_plain_rows_and_numbers_of_numpy(path: Path) -> None:
    with Library.open(path) as library:
        library.add([Sample("k", "v", key="1", knobs={"tile": np.int64(4)}, seconds=np.float64(0.5), rounds=np.int32(3),
                            dims=(np.int64(7),))])
        (found,) = library.samples()
        assert found.knobs == {"tile": 4} and found.dims == (7,) and found.seconds == 0.5
        made = datetime.fromisoformat(found.made)
        assert timedelta(0) <= datetime.now(UTC) - made < timedelta(minutes=1)


@pytest.mark.parametrize(("change", "message"), [
    ({"key": ""}, "key: expected a text that is not empty, got ''"), ({"kernel": " "}, "kernel: expected"),
    ({"seconds": -1.0}, "seconds: expected seconds above 0"), ({"seconds": float("nan")}, "seconds: expected"),
    ({"seconds": 0.0}, "seconds"), ({"spread": float("inf")}, "spread"), ({"rounds": 1.5}, "rounds"),
    ({"rounds": True}, "rounds"), ({"threads": 0}, "threads"), ({"knobs": {"a": 1.5}}, "knobs"),
    ({"knobs": {1: 1}}, "knobs"), ({"layouts": {0: "b8@1"}}, "layouts"),
    ({"features": {"f": float("nan")}}, "features"), ({"dims": ("a",)}, "dims"), ({"turns": ((1.0,),)}, "turns"),
    ({"turns": "1@2@3"}, "turns"),
    ({"made": "yesterday"}, "made: expected a time such as"), ({"made": "2026-13-01"}, "made"),
    ({"status": ""}, "status"), ({"cpu": "\ud800"}, "cpu"), ({"protocol": 1 << 64}, "protocol"),
])
def test_a_wrong_field_is_refused_and_nothing_is_added(path: Path, change: dict, message: str) -> None:
    with Library.open(path) as library:
        with pytest.raises(ValueError, match=message):
            library.add([sample("good"), sample("bad", **change) if "key" not in change else sample("")])
        assert library.counts() == Counts(0, 0)


def test_the_last_sample_of_a_key_counts(path: Path) -> None:
    with Library.open(path) as library:
        library.add([sample("a", seconds=0.1)])
        library.add([sample("a", seconds=0.2, rounds=1)])
        assert [s.seconds for s in library.samples()] == [0.2]
        library.decide([decision(kernel="one")])
        library.decide([decision(kernel="two"), decision(kernel="other threads", threads=2),
                        decision(kernel="other chip", capabilities="x86-64-v2"), decision("another group")])
        assert sorted(d.kernel for d in library.decisions(group=GROUP)) == ["other chip", "other threads", "two"]


def test_many_keys_at_once(path: Path) -> None:
    with Library.open(path) as library:
        library.add(sample(f"{i:06d}") for i in range(2500))
        assert len(library.known(f"{i:06d}" for i in range(3000))) == 2500
        assert library.known([]) == {}


def test_filters(path: Path) -> None:
    rows = [sample("a1", seconds=3.0), sample("a2", kernel="gemm", seconds=2.0), sample("b1", isa="x86-64-v2"),
            sample("b2", threads=2), sample("b3", cpu="Other", op="Gemm"), failed("c1"), sample("a%", group="g2")]
    with Library.open(path) as library:
        library.add(rows)

        def keys(**wanted: object) -> list[str]:
            return [s.key for s in library.samples(**wanted)]       # type: ignore[arg-type]
        assert keys(kernel="gemm") == ["a2"] and keys(isa="x86-64-v2") == ["b1"] and keys(threads=2) == ["b2"]
        assert keys(op="Gemm", cpu="Other") == ["b3"] and keys(op="Gemm", cpu="AMD EPYC") == []
        assert sorted(keys(key_prefix="a")) == ["a%", "a1", "a2"] and keys(key_prefix="a%") == ["a%"]
        assert keys(ok=True, group=GROUP, cpu="AMD EPYC", isa="x86-64-v3", threads=1) == ["a2", "a1"], "quickest first"
        assert keys(group=GROUP, cpu="AMD EPYC", isa="x86-64-v3", threads=1) == ["a2", "a1", "c1"], "failed last"
        assert keys(structure="s2") == [] and len(keys()) == 7
        with pytest.raises(TypeError):
            library.samples(colour="red")                            # type: ignore[call-arg]


def test_near_is_of_elsewhere_and_best_first(path: Path) -> None:
    here = {"cpu": "here", "isa": "v3"}
    slow_chip, quick_chip = {"cpu": "slow", "isa": "v2"}, {"cpu": "quick", "isa": "v3"}
    rows = [sample("1", kernel="mine", **here), sample("2", kernel="mine", group="larger", **here),
            sample("3", kernel="a", seconds=10.0, **slow_chip), sample("4", kernel="b", seconds=30.0, **slow_chip),
            sample("5", kernel="c", seconds=0.2, **quick_chip), sample("6", kernel="d", seconds=0.1, **quick_chip),
            failed("7", kernel="broken", **slow_chip), sample("8", kernel="z", structure="s2", **slow_chip),
            sample("9", kernel="a", seconds=0.4, **quick_chip)]
    with Library.open(path) as library:
        library.add(rows)
        found = [s.kernel for s in library.near("s1", group=GROUP, cpu="here", isa="v3")]
        assert found == ["d", "a", "c", "b", "mine"], "shares of the best of each chip; other sizes last"
        assert [s.kernel for s in library.near("s1", group=GROUP, **here)] == found
        assert "mine" not in [s.kernel for s in library.near("s1", **here)]
        assert [s.kernel for s in library.near("s1", group=GROUP, cpu="here", isa="v2")][:3] == ["a", "d", "mine"]
        assert library.near("nothing") == [] and library.near("s1", precision="int8") == []


def test_near_compares_times_of_the_same_sizes() -> None:
    rows = [sample("1", kernel="a", seconds=1.0, sizes={"batch": 1}),
            sample("2", kernel="b", seconds=9.0, sizes={"batch": 8}),
            sample("3", kernel="c", seconds=1.5, sizes={"batch": 1})]
    assert [s.kernel for s in best_first(rows)] == ["a", "b", "c"]


def test_times_within_networks_stand_apart(path: Path) -> None:
    """They compare with no time of a choice alone, and recommend nothing."""
    rows = [sample("1", cpu="there", kernel="a", seconds=2.0), sample("2", cpu="there", kernel="b", place="network")]
    with Library.open(path) as library:
        library.add(rows)
        assert [s.key for s in library.near("s1", cpu="here")] == ["1"]
        contests = contests_of(library.samples())
        assert [(c.sizes, [s.key for s in c.samples]) for c in contests] == [("", ["1"]), ("in network", ["2"])]
    assert sample(sizes={"batch": 8}, place="network").context[-1] == "batch 8, in network"


def test_near_takes_each_choice_once() -> None:
    rows = [sample("1", cpu="a", seconds=1.0), sample("2", cpu="b", seconds=1.0),
            sample("3", cpu="b", seconds=2.0, layouts={})]
    assert [s.key for s in best_first(rows)] == ["1", "3"]


def test_which_of_two_samples_is_better() -> None:
    old = sample(rounds=10, spread=1e-5, made="2026-01-01T00:00:00Z")
    newer = replace(old, made="2026-02-01T00:00:00Z")
    assert is_better(newer, old) and not is_better(old, newer) and is_better(old, old)
    assert is_better(replace(old, rounds=20), newer), "more rounds"
    assert is_better(replace(newer, spread=2e-6), old) and not is_better(replace(newer, spread=9e-5), old)
    assert not is_better(replace(newer, rounds=1, spread=0.0), old), "one round has no spread"
    assert is_better(old, failed(made="2026-03-01T00:00:00Z")) and not is_better(failed(made="2027-01-01"), old)


def test_merge(path: Path, tmp_path: Path) -> None:
    with Library.open(path) as ours, Library.open(tmp_path / "other.sqlite") as theirs:
        ours.add([sample("a", rounds=5), sample("b", rounds=15), sample("c")])
        ours.decide([decision(made="2026-05-01", kernel="ours"), decision("g2", made="2026-03-01", kernel="ours")])
        theirs.add([sample("a", rounds=15, seconds=1.0), sample("b", rounds=5, seconds=1.0, spread=0.1),
                    sample("d")])
        theirs.decide([decision(made="2026-04-01", kernel="theirs"), decision("g2", made="2026-04-01", kernel="theirs"),
                       decision("g3")])
        assert ours.merge(theirs.samples(), theirs.decisions()) == Merged(added=2, replaced=2, kept=2)
        assert {s.key: s.seconds for s in ours.samples()} == {"a": 1.0, "b": 0.0023, "c": 0.0023, "d": 0.0023}
        assert {d.group: d.kernel for d in ours.decisions()} == {GROUP: "ours", "g2": "theirs", "g3": "conv_direct"}
        again = ours.merge(theirs.samples(), theirs.decisions(), replace_all=True)
        assert again == Merged(0, 6, 0) and ours.known("b")["b"].seconds == 1.0


def test_prune(path: Path) -> None:
    with Library.open(path) as library:
        library.add([sample("old", made="2026-01-01T00:00:00Z"), sample("new"), sample("theirs", cpu="Cortex-A76"),
                     sample("protocol", protocol=0), sample("gcc", compiler="gcc 12")])
        library.decide([decision(key="old"), decision("g2", key="new"), decision("g3", key="gcc"),
                        decision("g4", key="gone", cpu="Cortex-A76"), decision("g5", key="", made="2026-01-01")])
        everything = library.counts()
        for wanted, samples, decisions in (
            ({"before": datetime(2026, 6, 1, tzinfo=UTC)}, 1, 2), ({"cpu": "cortex"}, 1, 1), ({"cpu": "A7"}, 1, 1),
            ({"current": (1, "ziglang 0.17.1")}, 2, 1), ({"current": (1, "gcc 12")}, 4, 2),
            ({"before": datetime(2026, 6, 1, tzinfo=UTC), "cpu": "cortex"}, 0, 0), ({}, 5, 5),
        ):
            assert library.prune(**wanted, dry_run=True) == Counts(samples, decisions), wanted   # type: ignore[arg-type]
        assert library.counts() == everything
        assert library.prune(current=(1, "ziglang 0.17.1")) == Counts(2, 1)
        assert sorted(s.key for s in library.samples()) == ["new", "old", "theirs"]
        assert sorted(d.group for d in library.decisions()) == sorted([GROUP, "g2", "g4", "g5"])


def test_whole_plans(path: Path, tmp_path: Path) -> None:
    """One for each key and mode; they go with a prune they meet, and when samples come from elsewhere."""
    def kept() -> list[str]:
        return [f"{key} {mode}" for key in ("p1", "p2") for mode in library.plans(key)]

    with Library.open(path) as library:
        assert library.plans("p1") == {}
        library.keep_plan(found_plan(whole="old"))
        library.keep_plan(found_plan())
        library.keep_plan(found_plan(mode="fast", cpu="Cortex-A76"))
        library.keep_plan(found_plan("p2", mode="fast", compiler="gcc 12", made="2026-01-01T00:00:00Z"))
        assert library.plans("p1") == {"balanced": found_plan(), "fast": found_plan(mode="fast", cpu="Cortex-A76")}
        library.prune(cpu="cortex", dry_run=True)
        library.prune(before=datetime(2025, 6, 1, tzinfo=UTC))
        assert kept() == ["p1 balanced", "p1 fast", "p2 fast"]
        library.prune(cpu="cortex")
        library.prune(current=(1, "ziglang 0.17.1"))
        assert kept() == ["p1 balanced"]
        library.merge([], [decision()])
        assert kept() == ["p1 balanced"]
        library.merge([sample()], [])
        assert kept() == []
        library.keep_plan(found_plan())
        library.prune()
        assert kept() == []
        with pytest.raises(ValueError, match="mode"):
            library.keep_plan(found_plan(mode=""))


def test_pruning_gives_room_back(path: Path) -> None:
    with Library.open(path) as library:
        library.add(sample(f"{i}", group=f"group {i}" * 50) for i in range(2000))
        library.prune()
    assert path.stat().st_size < 100_000


def test_a_file_of_version_1_is_migrated(path: Path) -> None:
    path.parent.mkdir()
    old = sqlite3.connect(path)
    old.executescript((HERE / "version_1.sql").read_text())
    old.close()
    with Library.open(path) as library:
        assert library.known(["aa01"])["aa01"].sizes == {} and library.known(["aa01"])["aa01"].place == ""
        assert library.known(["aa01"])["aa01"].turns == ((0.002, 9.8e10), (0.0021, 9.7e10))
        assert [s.ok for s in library.samples()] == [True, False] and library.decisions() == []
        library.decide([decision()])
    new = sqlite3.connect(path)
    tables = "SELECT type, name, replace(replace(sql, char(10), ''), '  ', '') FROM sqlite_master ORDER BY name"
    fresh = path.with_name("fresh.sqlite")
    Library.open(fresh).close()
    assert [(kind, name) for kind, name, _ in new.execute(tables)] == [
        (kind, name) for kind, name, _ in sqlite3.connect(fresh).execute(tables)]
    assert new.execute("PRAGMA user_version").fetchone() == (VERSION,)
    assert new.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    new.close()


def test_a_row_that_a_hand_has_spoilt_is_named(path: Path) -> None:
    with Library.open(path) as library:
        library.add([sample("a"), sample("b")])
    db = sqlite3.connect(path)
    db.execute("UPDATE samples SET knobs = '{rows: 4}' WHERE key = 'b'")
    db.commit()
    db.close()
    with Library.open(path) as library:
        assert set(library.known(["a"])) == {"a"}
        with pytest.raises(LibraryError, match="sample 'b': holds in column 'knobs' what is not names with whole"):
            library.samples()


def test_the_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("META_INFER_CACHE", "/somewhere")
    for name in ("META_INFER_LIBRARY", "META_INFER_MEASURE"):
        monkeypatch.delenv(name, raising=False)
    assert read_switches().library == Path("/somewhere/library.sqlite")
    monkeypatch.setenv("META_INFER_LIBRARY", "mine.sqlite")
    assert read_switches().library == Path("mine.sqlite") and read_switches().measure == ""
    monkeypatch.setenv("META_INFER_MEASURE", "replay")
    assert read_switches().library == Path("mine.sqlite") and read_switches().measure == "replay"
    monkeypatch.setenv("META_INFER_MEASURE", "replay:other.sqlite")
    assert read_switches().library == Path("other.sqlite") and read_switches().measure == "replay"
    for wrong in ("reply", "record", "record:file"):
        monkeypatch.setenv("META_INFER_MEASURE", wrong)
        with pytest.raises(UsageError, match="expected 'replay' or 'replay:FILE'"):
            read_switches()

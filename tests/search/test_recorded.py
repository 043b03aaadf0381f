"""Measuring with the library: what is known is not measured again, and a replay starts nothing."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from meta_infer.library.samples import Sample
from meta_infer.library.store import Library
from meta_infer.search.measure import recorded as module
from meta_infer.search.measure.candidate import Candidate
from meta_infer.search.measure.measure import measured_cpu
from meta_infer.search.measure.measure_protocol import VERSION
from meta_infer.search.measure.measurements import Measurement, key_of
from meta_infer.search.measure.recorded import measure_recorded
from meta_infer.support.errors import InputError, LibraryError, LibraryUnwritableError
from tests.search.test_measure import FEW, GOOD, candidate


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("META_INFER_MEASURE", raising=False)
    monkeypatch.setenv("META_INFER_LIBRARY", str(tmp_path / "library.sqlite"))
    return tmp_path / "library.sqlite"


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Measures nothing: the n-th call gives n seconds to each; the names of each call."""
    made: list[list[str]] = []

    def measure(candidates: list[Candidate], **options: object) -> tuple[Measurement, ...]:
        made.append([c.name for c in candidates])
        pairs = ((float(len(made)), 1e9), (float(len(made)), 3e9), (float(len(made)), 2e9))
        return tuple(Measurement(c.name, float(len(made)), 0.01, 0.5, 3, "ok", pairs) for c in candidates)

    monkeypatch.setattr(module, "measure", measure)
    return made


def samples_of(made: Candidate) -> Sample:
    return Sample("copy", made.name, op="Identity", group="g", structure="s", knobs={"tile": 4})


def test_a_second_build_measures_what_is_new(path: Path, calls: list[list[str]]) -> None:
    one, two, three = (candidate(name, GOOD + f"/* {name} */") for name in ("one", "two", "three"))
    with Library.open(path) as library:
        first = measure_recorded([one, two], samples_of, library)
        again = measure_recorded([two, three, replace(one, name="renamed")], samples_of, library)
        assert calls == [["one", "two"], ["three"]]
        assert [(m.name, m.seconds) for m in again] == [("two", 1.0), ("three", 2.0), ("renamed", 1.0)]
        assert again[0] == first[1] and measure_recorded([], samples_of, library) == ()
        assert measure_recorded([one], samples_of, library, threads=2)[0].seconds == 4.0
        assert measure_recorded([one], samples_of, library, fresh=True)[0].seconds == 5.0
        assert measure_recorded([one], samples_of, library)[0].seconds == 5.0 and calls[-1] == []


def test_what_is_kept_of_a_candidate(path: Path, calls: list[list[str]]) -> None:
    made = candidate("one", GOOD)
    made = replace(made, launches=(replace(made.launches[0], dims=(3, 4)),))
    with Library.open(path) as library:
        measure_recorded([made], samples_of, library, threads=2)
        (kept,) = library.samples()
    assert kept == Sample(
        "copy", "one", key=key_of(made, 2, measured_cpu()), op="Identity", group="g", structure="s", knobs={"tile": 4},
        isa=made.artifact.isa, cpu=measured_cpu(), threads=2, dims=(3, 4), seconds=1.0, spread=0.01, share_of_peak=0.5,
        peak=2e9, rounds=3, turns=((1.0, 1e9), (1.0, 3e9), (1.0, 2e9)), protocol=VERSION,
        compiler=made.artifact.compiler, made=kept.made)


def test_equal_candidates_are_measured_once(path: Path, calls: list[list[str]]) -> None:
    one = candidate("one", GOOD)
    found = measure_recorded([one, replace(one, name="twin")], samples_of, None)
    assert calls == [["one"]] and [m.name for m in found] == ["one", "twin"]


def test_a_failure_is_known_unless_it_came_from_outside(path: Path, calls: list[list[str]],
                                                        monkeypatch: pytest.MonkeyPatch) -> None:
    own, outside = candidate("own", GOOD + "/* 1 */"), candidate("outside", GOOD + "/* 2 */")
    status = {"own": "killed by SIGSEGV", "outside": "killed by SIGKILL"}

    def fail(candidates: list[Candidate], **options: object) -> tuple[Measurement, ...]:
        return tuple(Measurement(c.name, math.inf, 0.0, 0.0, 0, status[c.name]) for c in candidates)

    with Library.open(path) as library:
        with monkeypatch.context() as patched:
            patched.setattr(module, "measure", fail)
            assert [m.status for m in measure_recorded([own, outside], samples_of, library)] == list(status.values())
        with monkeypatch.context() as patched:
            patched.setenv("META_INFER_MEASURE", "replay")
            assert [m.status for m in measure_recorded([own, outside], samples_of, library)] == list(status.values())
        found = measure_recorded([own, outside], samples_of, library)
    assert calls == [["outside"]] and [m.ok for m in found] == [False, True] and math.isinf(found[0].seconds)


def test_replay_gives_what_was_measured(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good, bad = candidate("good", GOOD), candidate("bad", "__builtin_trap();")
    with Library.open(path) as library:
        made = measure_recorded([good, bad], samples_of, library, **FEW)
    assert made[0].ok and made[0].turns and not made[1].ok
    monkeypatch.setattr(module, "measure", None)                              # nothing may be started
    for value in ("replay", f"replay:{path}"):
        monkeypatch.setenv("META_INFER_MEASURE", value)
        assert measure_recorded([bad, good], samples_of, None, fresh=True) == (made[1], made[0])
        changed = candidate("changed", GOOD + " y[1] = 0.0f;")
        with pytest.raises(InputError, match="has no measurement of 'changed' with 1 thread on") as error:
            measure_recorded([good, changed], samples_of, None)
        assert f"library {path}" in str(error.value)
        with pytest.raises(InputError, match="with 2 threads"), Library.open(path) as library:
            measure_recorded([good], samples_of, library, threads=2)
    monkeypatch.setenv("META_INFER_MEASURE", f"replay:{path}.gone")
    with pytest.raises(LibraryError, match="does not exist"):
        measure_recorded([good], samples_of, None)


def test_a_library_that_cannot_be_written_loses_no_result(path: Path, calls: list[list[str]],
                                                          monkeypatch: pytest.MonkeyPatch) -> None:
    made, warnings = candidate("one", GOOD), list[str]()

    def full(self: Library, samples: object) -> None:
        raise LibraryUnwritableError("cannot grow: the disk is full", what=f"library {self.path}")

    with Library.open(path) as library:
        with monkeypatch.context() as patched:
            patched.setattr(Library, "add", full)
            assert measure_recorded([made], samples_of, library, warn=warnings.append)[0].ok
            assert len(warnings) == 1 and "the disk is full" in warnings[0] and "not be remembered" in warnings[0]
            with pytest.raises(LibraryUnwritableError):
                measure_recorded([made], samples_of, library)
        assert library.samples() == []

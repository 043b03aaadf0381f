"""The operator suite of onnx on compiled packages: an eighth of it here, all of it with `pytest tests/suite --full`.

`python tests/onnx_suite.py` runs all of it with a table; docs/testing.md has the last result.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from meta_infer.ops.gaps import GAPS
from meta_infer.suite.cases import OUT, Case, collect_cases
from meta_infer.suite.run_case import Outcome
from meta_infer.suite.run_suite import read_outcomes, run_suite
from meta_infer.suite.stored_cases import collect_stored_cases
from meta_infer.support.errors import UsageError

EVERY = 8


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    return collect_cases()


def require_passed(outcomes: list[Outcome]) -> None:
    wrong = [f"{o.name} {o.status}: {o.reason}" for o in outcomes if not o.passed and not o.is_known]
    assert not wrong, "\n".join(wrong)


def test_operator_cases(cases: list[Case], request: pytest.FixtureRequest) -> None:
    inside = [case for case in cases if case.kind not in OUT]
    full = request.config.getoption("--full")
    chosen = inside if full else inside[3::EVERY]
    outcomes = run_suite(chosen, len(os.sched_getaffinity(0)))
    require_passed(outcomes)
    if full:
        plain = [outcome for outcome in outcomes if outcome.kind == "plain"]
        assert sum(outcome.passed for outcome in plain) >= 1600
        assert sum(outcome.passed for outcome in outcomes) >= 1740


def test_stored_models(request: pytest.FixtureRequest) -> None:
    """Without --full the small ones of one folder, and one network."""
    match = () if request.config.getoption("--full") else ("pytorch-operator/*", "light/light_squeezenet")
    require_passed(run_suite(collect_stored_cases(match), len(os.sched_getaffinity(0))))


def test_every_pattern_of_a_gap_names_a_case(cases: list[Case]) -> None:
    from fnmatch import filter as matching

    names = [case.name for case in cases]
    for gap in GAPS:
        for pattern in gap.cases:
            assert matching(names, pattern), pattern


def test_a_run_goes_on_where_it_was(tmp_path: Path) -> None:
    chosen = collect_cases(["test_relu", "test_abs"])
    results = tmp_path / "results.jsonl"
    first = run_suite(chosen[:1], 1, results)
    assert run_suite(chosen, 1, results)[0] == first[0]
    assert [outcome.name for outcome in read_outcomes(results)] == ["test_abs", "test_relu"]
    results.write_text(results.read_text() + '{"name": "cut o')          # the last line of a run that was killed
    assert len(read_outcomes(results)) == 2


def test_a_file_of_something_else(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("one\ntwo\n")
    with pytest.raises(UsageError, match="line 1 is no outcome"):
        read_outcomes(tmp_path / "notes.txt")


def test_a_crash_is_a_failed_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from meta_infer.suite import run_suite as module

    def crash(case: Case, folder: Path, compute: object) -> Outcome:
        if case.name == "test_abs":
            os.abort()
        return Outcome(case.name, case.op, case.kind, "passed", "", 0.0)

    monkeypatch.setattr(module, "run_case", crash)
    outcomes = {o.name: o for o in run_suite(collect_cases(["test_relu", "test_abs"]), 1)}
    assert outcomes["test_abs"].reason == "crashed: signal 6" and outcomes["test_relu"].passed


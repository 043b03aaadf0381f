"""Two thousand random graphs of all op kinds against ONNX Runtime, fifty in a package: `fuzz_many.py` says how.

META_INFER_FUZZ sets how many. Without it all are drawn in CI and with --full, elsewhere a tenth of them.
"""

from __future__ import annotations

import os
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from meta_infer import api

from .fuzz import Verdict, load_profile
from .fuzz_many import batches, check_many, draw, merged, renamed
from .random_graphs import random_case
from .random_wide import EVERYTHING

FIRST, GRAPHS, TOGETHER = 500_000, 2000, 50
"""Seeds are fixed, so that a failure can be repeated: python -m tests.build.fuzz_many --first N --count 50."""
MOST_REFUSED = 0.01


def test_packages_of_many_graphs_equal_onnx_runtime(full: bool, tmp_path: Path) -> None:
    default = GRAPHS if full or os.environ.get("CI") else GRAPHS // 10
    count = int(os.environ.get("META_INFER_FUZZ", default))
    with ProcessPoolExecutor(max_workers=min(2, os.cpu_count() or 1)) as pool:
        found = list(pool.map(_check, batches(FIRST, count, TOGETHER)))
    verdicts = {seed: verdict for batch in found for seed, verdict in batch.items()}
    assert len(verdicts) == count
    failed = {seed: verdict.detail for seed, verdict in verdicts.items() if verdict.failed and
              verdict.kind != "doubtful"}
    assert not failed, "\n".join(f"seed {seed}: {detail}" for seed, detail in failed.items())
    refused = [f"seed {seed}: {verdict.detail}" for seed, verdict in verdicts.items() if verdict.kind == "refused"]
    assert len(refused) <= MOST_REFUSED * count + 1, "\n".join(refused)


def _check(seeds: range) -> dict[int, Verdict]:
    api.load_profile = load_profile                      # type: ignore[attr-defined]
    with tempfile.TemporaryDirectory() as folder:
        return dict(check_many(draw(seeds), Path(folder)))


def test_parts_keep_their_names_apart() -> None:
    """Values, constants, nodes, dims and the names inside of regions."""
    cases = [renamed(random_case(seed, EVERYTHING, 8, opset=17), f"s{seed}_") for seed in range(12)]
    whole = merged(cases)
    made = [name for node in whole.model.graph.node for name in node.output if name]
    assert len(made) == len(set(made)) and len(whole.model.graph.node) == sum(len(c.model.graph.node) for c in cases)
    assert set(whole.inputs) == {info.name for info in whole.model.graph.input}
    names = [node.name for node in whole.model.graph.node]
    assert len(names) == len(set(names)) and all(name.startswith("s") for name in names)


@pytest.mark.parametrize("broken", [3, 0])
def test_a_fault_is_laid_on_its_seed(broken: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong value of one part, and a part that the compiler cannot build, in the middle of others."""
    cases = {seed: random_case(seed, EVERYTHING, 4, opset=17) for seed in range(20, 24)}
    bad = 20 + broken
    output = cases[bad].model.graph.output[0].name
    asked = []

    def check(case: object, folder: Path) -> Verdict:
        asked.append(case)
        return Verdict("mismatch", "as planned")

    monkeypatch.setattr("tests.build.fuzz_many.check", check)
    cases[bad].values[output][:] = [a + 1 if a.dtype != bool else ~a for a in cases[bad].values[output]]
    verdicts = dict(check_many(cases, tmp_path))
    assert [seed for seed, verdict in verdicts.items() if verdict.failed] == [bad] and asked == [cases[bad]]

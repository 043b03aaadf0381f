"""`library list`, `show`, `export`, `import` and `prune`."""

from __future__ import annotations

from pathlib import Path

import pytest

from meta_infer.cli.library import words_known
from meta_infer.library.explain import contests_of, explain
from meta_infer.library.store import Library
from meta_infer.search.measure.measure_protocol import VERSION
from tests.cli.conftest import Cli
from tests.library.made_up import GROUP, decision, failed, sample

GEMM = "MatMul(%0: float32[B, 256], %1: const float32[256, 64]) -> %2: float32[B, 64] -> %2"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the library will be."""
    monkeypatch.delenv("META_INFER_MEASURE", raising=False)
    monkeypatch.setenv("META_INFER_LIBRARY", str(tmp_path / "library.sqlite"))
    return tmp_path / "library.sqlite"


@pytest.fixture
def filled(path: Path) -> Path:
    with Library.open(path) as library:
        library.add([
            sample("aa11", protocol=VERSION), sample("aa22", kernel="conv_winograd", variant="f4", knobs={"tiles": 24},
                                                     seconds=0.0025), failed("aa33", knobs={"rows": 9}),
            sample("bb11", cpu="Cortex-A76 with a name that does not end", isa="aarch64", seconds=0.01),
            sample("cc11", kernel="gemm", variant="packed", op="MatMul", group=GEMM, threads=2, sizes={"B": 8},
                   compiler="gcc 12",
                   made="2020-01-01T00:00:00Z")])
        library.decide([decision(key="aa11")])
    return path


def fits(text: str) -> bool:
    return max(map(len, text.splitlines())) <= 100


def test_an_empty_library_says_how_it_is_filled(cli: Cli, path: Path) -> None:
    for command in (["list"], ["list", "--samples"], ["show", "conv"], ["prune", "--stale"]):
        ended = cli("library", *command)
        assert ended.code == 0 and str(path) in ended.out and "--search-mode balanced" in ended.out
        assert "meta-infer library import FILE" in ended.out
    assert not path.exists()
    assert cli("library", "list", "--json").json == {
        "library": str(path), "samples": 0, "decisions": 0, "groups": []}
    assert cli("library", "show", "conv", "--json").json == []
    assert cli("library", "export", path.with_name("all.yaml")).code == 11
    Library.open(path).close()
    assert "empty" in cli("library", "list").out and "empty" in cli("library", "show", "conv").out


def test_list(cli: Cli, filled: Path) -> None:
    ended = cli("library", "list")
    lines = ended.out.splitlines()
    assert ended.code == 0 and fits(ended.out) and len(lines) == 1 + 3 + 2
    assert lines[-1] == f"{filled}: 5 samples, 1 decisions"
    assert "conv_direct/tiled" in lines[1] and "2.30 ms" in lines[1] and " 3 " in lines[1] and "AMD EPYC" in lines[1]
    assert "2 lines more with --most 0" in cli("library", "list", "--most", "1").out
    assert len(cli("library", "list", "--op", "MatMul").out.splitlines()) == 1 + 1 + 2
    assert cli("library", "list", "--op", "MatMull").out.endswith("1 decisions; none is of --op MatMull\n")
    every = cli("library", "list", "--samples")
    assert fits(every.out) and "killed" in every.out and every.out.count("aa") == 3
    found = cli("library", "list", "--json", "--cpu", "epyc").json
    assert (found["samples"], len(found["groups"])) == (5, 2) and found["groups"][0]["best"]["key"] == "aa11"
    found = cli("library", "list", "--json", "--samples", "--kernel", "conv_direct").json
    assert [s["seconds"] for s in found["listed"]] == [0.0023, None, 0.01]


def test_show_explains_a_decision(cli: Cli, filled: Path) -> None:
    for text in ("aa11", "AA", "conv_direct", "resnet18", "conv(float32[1,64,56", "Conv(%0: float32[1, 64", "tiles=24"):
        ended = cli("library", "show", text)
        assert ended.code == 0 and GEMM not in ended.out, text
        assert ended.out.startswith(GROUP + "\n"), text
    for part in ("decided: conv_direct/tiled", "took 2.30 ms on AMD EPYC, 1 thread: x86-64-v3, 8 lanes, L1 32 KiB",
                 "beat 7 rivals; the nearest, conv_winograd/f4 tiles=24, took 2.50 ms, +8.7%", "sample aa11",
                 "for resnet18, 2026-11-30 08:10", "measured on AMD EPYC, x86-64-v3, 1 thread", "0.7%", "95%",
                 "measured on Cortex-A76 with a name that does not end, aarch64, 1 thread", "(killed by SIGILL)"):
        assert part in ended.out, part
    assert max(map(len, ended.out.splitlines()[2:])) <= 100
    undecided = cli("library", "show", "gemm").out
    assert "no build has decided on it yet" in undecided and "x86-64-v3, 2 threads, B 8\n" in undecided
    both = cli("library", "show", "float32").out
    assert GROUP in both and GEMM in both
    assert "1 more groups with --most 0" in cli("library", "show", "float32", "--most", "1").out
    (known,) = cli("library", "show", "cc11", "--json").json
    assert known["group"] == GEMM and known["contests"][0]["samples"][0]["key"] == "cc11"


def test_show_of_what_is_not_there(cli: Cli, filled: Path) -> None:
    ended = cli("library", "show", "conv_winegrad")
    assert ended.code == 2 and ended.out == "" and "did you mean 'conv_winograd'" in ended.err
    assert cli("library", "show", "").code == 0


def test_contests_compare_what_compares() -> None:
    rows = [sample("1", seconds=2.0), sample("2", seconds=1.0), sample("3", threads=2), failed("4"),
            failed("5", cpu="Z"), sample("6", cpu="Z", sizes={"W": 64, "batch": 8})]
    contests = contests_of(rows)
    assert [[s.key for s in c.samples] for c in contests] == [["2", "1", "4"], ["3"], ["5"], ["6"]]
    assert [c.best.key if c.best else None for c in contests] == ["2", "3", None, "6"]
    assert [c.sizes for c in contests] == ["", "", "", "W 64, batch 8"]


def test_explain_by_key_goes_before_text(path: Path) -> None:
    with Library.open(path) as library:
        library.add([sample("c0nv", group="one"), sample("d", group="two", kernel="c0nv")])
        library.decide([decision("three", model="c0nv")])
        assert [k.group for k in explain(library, "c0n")] == ["one"]
        assert [k.group for k in explain(library, "0nv")] == ["three", "two"]


def test_export_and_import(cli: Cli, filled: Path, tmp_path: Path) -> None:
    for name in ("all.yaml", "all.json"):
        ended = cli("library", "export", tmp_path / name)
        assert ended.code == 0 and ended.out == "" and "5 samples and 1 decisions" in ended.err
        other = tmp_path / f"{name}.sqlite"
        ended = cli("library", "import", tmp_path / name, "--library", other)
        assert ended.code == 0 and ended.out == "6 added, 0 replaced, 0 left out for better or newer ones\n"
        assert cli("library", "import", tmp_path / name, "--library", other, "--json").json == {
            "added": 0, "replaced": 6, "kept": 0}
    assert "1 samples and 0" in cli("library", "export", tmp_path / "arm.yaml", "--cpu", "cortex").err
    assert cli("library", "export", tmp_path / "all.csv").code == 2
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text((tmp_path / "all.yaml").read_text().replace("rounds: 15", "rounds: ten", 1))
    ended = cli("library", "import", wrong)
    assert ended.code == 11 and f"{wrong}: line 22: samples[0].rounds: expected a whole number" in ended.err


def test_prune(cli: Cli, filled: Path) -> None:
    assert cli("library", "prune").code == 2
    ended = cli("library", "prune", "--older-than", "365", "--dry-run")
    assert ended.out == "1 samples and 0 decisions would be removed; there are now 5 and 1\n"
    assert cli("library", "prune", "--stale", "--cpu", "cortex", "--json").json["removed"]["samples"] in (0, 1)
    ended = cli("library", "prune", "--stale", "--older-than", "365")
    assert ended.code == 0 and ended.out.startswith("1 samples and 0 decisions removed; ")
    assert cli("library", "prune", "--cpu", "epyc", "--json").json["left"]["decisions"] == 0
    assert cli("library", "prune", "--older-than", "1e9").code == 2


def test_a_file_that_is_no_library(cli: Cli, path: Path) -> None:
    path.write_bytes(b"not SQLite at all" * 100)
    for command in (["list"], ["show", "a"], ["prune", "--stale"], ["import", path], ["export", "a.yaml"]):
        ended = cli("library", *command)
        assert ended.code == 11 and "is not a library" in ended.err and ended.out == ""
    assert words_known() == []


def test_completions(filled: Path) -> None:
    assert words_known()[:4] == ["conv_direct", "conv_winograd", "gemm", "resnet18"] and "aa11" in words_known()

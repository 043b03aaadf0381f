"""The comparison with other runtimes, without any of them: its workers' protocol, judgement, tables, resuming."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from benchmarks import peer_setup, peer_turns, peers
from benchmarks.peer_setup import Converted, Environment, Model, PeerFailed, convert
from benchmarks.peer_turns import Process, Result, compare, difference
from benchmarks.peers import kept, print_model, print_summary, result_line
from benchmarks.peers_plot import plot

from meta_infer import api

DIGITS = Path(api.__file__).resolve().parent / "demo" / "digits.onnx"

FAKE = """
import json, os, sys
for line in sys.stdin:
    request = json.loads(line)
    what = os.path.basename(request.get("file", "")) if request["do"] == "load" else mode
    mode = what
    if mode == "broken":
        print(json.dumps({"error": "ValueError: no such layer"}), flush=True)
    elif mode == "dead":
        sys.exit("it died")
    elif mode == "silent":
        continue
    elif request["do"] == "load":
        print(json.dumps({"import": 0.1, "load": 0.2, "first": 0.3, "base": 1000, "version": "1"}), flush=True)
    elif request["do"] == "run" and mode == "late":
        sys.exit(3)
    elif request["do"] == "run":
        print(json.dumps({"seconds": [0.002, 0.001, 0.003], "resident": 5000}), flush=True)
    else:
        import numpy
        numpy.savez(request["file"], **{"000": numpy.array([1.0, 2.0 if mode == "good" else 2.5], "float32")})
        print(json.dumps({"outputs": 1}), flush=True)
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Workers are this process's Python, with a program that does as the file to load is called."""
    worker = tmp_path / "worker.py"
    worker.write_text(FAKE)
    monkeypatch.setattr(peer_turns, "WORKER", worker)
    return worker


def test_a_process_that_fails_says_how(fake: Path) -> None:
    for mode, message in (("broken", "ValueError: no such layer"), ("dead", "exit code 1: it died"),
                          ("silent", "no answer within 0 s")):
        process = Process([sys.executable, str(fake)], 1)
        with pytest.raises(PeerFailed, match=message):
            process.ask({"do": "load", "file": mode}, 0.2 if mode == "silent" else 20.0)
        process.close()


class FixedPeak:
    """Probes that need no compiler."""

    def peak(self) -> float:
        return 1e11


def compared(tmp_path: Path, modes: dict[str, str]) -> dict[str, Result]:
    def made(peer: str) -> Converted:
        if modes[peer] == "unfit":
            raise PeerFailed("cannot convert: what it is")
        return Converted(tmp_path / modes[peer], 7 << 20, {})

    model = Model("net", tmp_path / "net.onnx", {}, tmp_path / "in.npz", ("y",))
    row = compare(model, made, tuple(modes), Path(sys.executable), 2, FixedPeak(), 3, 0.0)
    print_model(row)
    print_summary([row], markdown=True)
    print_summary([row], markdown=False)
    assert (row["model"], row["threads"], row["peaks"]) == ("net", 2, [1e11] * 3)
    return peers.results_of(json.loads(json.dumps(row)))


def test_whoever_fails_gets_a_row_that_says_why(fake: Path, tmp_path: Path,
                                                capsys: pytest.CaptureFixture[str]) -> None:
    found = compared(tmp_path, {"meta-infer": "good", "onnxruntime": "good", "openvino": "late", "mnn": "wrong",
                                "ncnn": "unfit"})
    ours = found["meta-infer"]
    assert (ours.status, ours.seconds, ours.least, ours.ours) == ("ok", 0.002, 0.001, 1.0)
    assert (ours.load, ours.first, ours.memory, ours.file, ours.difference) == (0.2, 0.3, 4000, 7 << 20, 0.0)
    assert found["onnxruntime"].status == "ok"
    assert found["openvino"].status == "exit code 3" and not found["openvino"].is_timed
    assert found["mnn"].status == "wrong result" and found["mnn"].is_timed
    assert found["mnn"].difference == pytest.approx(0.25)
    assert found["ncnn"].status == "cannot convert: what it is"
    printed = capsys.readouterr().out
    assert "ncnn         cannot convert: what it is" in printed and "2.5e-01  wrong result" in printed
    assert "| net | 2 | 2.00 | 2.00 | - | 2.00 (wrong) | - | 1.00 |" in printed
    assert all(len(line) <= 100 for line in printed.splitlines())


def test_without_a_reference_nothing_is_judged(fake: Path, tmp_path: Path) -> None:
    found = compared(tmp_path, {"onnxruntime": "dead", "mnn": "wrong"})
    assert found["onnxruntime"].status == "exit code 1: it died" and found["mnn"].status == "ok"


def test_differences() -> None:
    a = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
    assert difference([a], [a]) == 0.0
    assert difference([a.reshape(1, 4)], [a]) == 0.0, "engines without a batch axis"
    assert difference([a + 1], [a]) == pytest.approx(0.25)
    for bad in ([], [a, a], [a[:1]], [np.full_like(a, np.nan)]):
        assert difference(bad, [a]) == float("inf")


def test_results_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "peers.jsonl"
    assert kept(file) == {}
    row = {"model": "net", "threads": 1, "peaks": [], "results": [vars(Result("mnn", "no"))]}
    lines = [row, {**row, "threads": 2}, {**row, "peaks": [1.0]}, {**row, "threads": 2, "search_mode": "fast"}]
    file.write_text("\n".join(json.dumps(line) for line in lines) + '\n{"model": "cut sh')
    found = kept(file)
    assert set(kept(file, "fast")) == {("net", 2)}
    assert set(found) == {("net", 1), ("net", 2)} and found["net", 1]["peaks"] == [1.0], "the last one counts"
    assert "skipping a line" in capsys.readouterr().err


def test_what_is_known_is_not_measured_again(tmp_path: Path) -> None:
    results = tmp_path / "peers.jsonl"
    row = {"model": "digits batch=1", "threads": 1, "peaks": [1e11],
           "results": [vars(Result("meta-infer", seconds=0.5, least=0.5, ours=1.0, rounds=[0.5]))]}
    results.write_text(json.dumps(row) + "\n")
    done = subprocess.run(
        [sys.executable, str(Path(peers.__file__)), "digits", "--engines", "meta-infer", "--env", str(tmp_path / "env"),
         "--results", str(results), "--plot", str(tmp_path / "bars.svg"), "--markdown"],
        capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "known from" in done.stderr and "| digits batch=1 | 1 | 500.00 | - | - | - | - | - |" in done.stdout
    assert "digits batch=1, 1 t" in (tmp_path / "bars.svg").read_text()


def test_the_real_worker_runs_a_package(tmp_path: Path) -> None:
    """With the engine that is here: the same protocol as for all others."""
    package = tmp_path / "digits.bin"
    api.build(DIGITS, output=package, verify=False)
    np.savez(tmp_path / "in.npz", image=np.ones((1, 1, 8, 8), np.float32))
    process = Process([sys.executable, str(peer_turns.WORKER)], 1)
    load = {"do": "load", "engine": "meta-infer", "file": str(package), "inputs": str(tmp_path / "in.npz"),
            "outputs": ["y"], "threads": 1}
    with pytest.raises(PeerFailed, match="nothing is loaded"):
        process.ask({"do": "run", "seconds": 0})
    told = process.ask(load)
    assert told["base"] > 1 << 20 and told["load"] > 0 and told["first"] > 0 and told["version"]
    assert process.ask({"do": "run", "seconds": 0.01})["resident"] > told["base"]
    assert process.ask({"do": "save", "file": str(tmp_path / "out.npz")}) == {"outputs": 1}
    assert np.load(tmp_path / "out.npz")["000"].shape == (1, 10)
    with pytest.raises(PeerFailed, match="missing.bin"):
        process.ask({**load, "file": str(tmp_path / "missing.bin")})
    assert process.ask({"do": "quit"}) == {}
    process.close()


def test_conversions_are_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def fail(environment: Environment, model: Model, place: Path) -> dict[str, object]:
        calls.append("fail")
        raise PeerFailed("exit code 1: op Foo is not supported")

    def work(environment: Environment, model: Model, place: Path) -> dict[str, object]:
        calls.append("work")
        (place / "a").write_bytes(b"123")
        (place / "b").write_bytes(b"45")
        return {"files": ["a", "b"], "request": {"batch": [0]}}

    monkeypatch.setattr(peer_setup, "_CONVERTERS", {"mnn": fail, "ncnn": work})
    environment = Environment(tmp_path, {"openvino": "cannot install: no wheel"})
    model = Model("digits batch=1", DIGITS, {"image": np.ones((1, 1, 8, 8))}, tmp_path / "in.npz", ("y",))
    for _ in range(2):
        with pytest.raises(PeerFailed, match="cannot convert: exit code 1: op Foo"):
            convert(environment, "mnn", model, tmp_path)
        made = convert(environment, "ncnn", model, tmp_path)
        assert (made.file.name, made.bytes, made.request) == ("a", 5, {"batch": [0]})
    assert calls == ["fail", "work"]
    with pytest.raises(PeerFailed, match="no wheel"):
        convert(environment, "openvino", model, tmp_path)
    assert convert(environment, "onnxruntime", model, tmp_path).file == DIGITS


def test_the_line_that_tells_most() -> None:
    text = "Start\n\x1b[1;31mError: layer Foo is not supported\x1b[0m\nbye\n"
    assert peer_setup._reason(text, 1) == "exit code 1: Error: layer Foo is not supported"
    assert peer_setup._reason("one\ntwo\n", -11) == "killed by signal 11: two"
    assert peer_setup._reason("", 2) == "exit code 2: nothing said"


def test_rows_fit() -> None:
    wide = Result("meta-infer", "wrong result", "1", 123.456789, 99.9, 12.345, 12345.6, 999.9, 5 << 30, 500 << 20, 0.5,
                  [1.0])
    assert len(result_line(wide)) <= 100 and len(peers.HEAD) <= 100
    assert len(result_line(Result("mnn", "x" * 300))) == 100


def test_the_plot_is_well_formed() -> None:
    text = plot([("a <b>", {"x": 1.0, "y": 8.0}), ("none", {})], ("x", "y & z"))
    root = ElementTree.fromstring(text)
    assert "8000.00 ms (8.0x)" not in text, "an engine that is not listed has no bar"
    assert len(root.findall(".//{http://www.w3.org/2000/svg}rect")) == 1 + 2 + 1
    assert "8000.00 ms (8.0x)" in plot([("a", {"x": 1.0, "y": 8.0})], ("x", "y"))

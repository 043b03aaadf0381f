"""Choices that users make, and choices of a lock: kept, or refused with the reason."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from meta_infer import api
from meta_infer.search.pins import parse_pins
from meta_infer.support.errors import InputError, UsageError
from tests.search.test_search import small_model


def row(result: api.BuildResult, output: str) -> dict[str, object]:
    (found,) = [c for c in lock_of(result)["choices"]["x86-64-v3"] if output in c["nodes"]]
    return found


def lock_of(result: api.BuildResult) -> dict[str, dict[str, list[dict[str, object]]]]:
    assert result.path is not None
    return json.loads(zipfile.ZipFile(result.path).read("build.lock.json"))


def build(model: Path, *pins: str, **fields: object) -> api.BuildResult:
    return api.build(model, output=model.with_suffix(".bin"), isa=("x86-64-v3",), pin=pins, **fields)


@pytest.mark.parametrize("text", ["", "conv1", "conv1=winograd", ".algo=x", "conv1.algo=", "=x"])
def test_what_is_no_pin(text: str) -> None:
    with pytest.raises(UsageError, match="is no choice"):
        parse_pins([text])


def test_algorithms_layouts_and_knobs_are_kept(tmp_path: Path) -> None:
    model = small_model(tmp_path)
    assert row(build(model, "a.algo=winograd_f2"), "a")["variant"] == "winograd_f2"
    assert row(build(model, "a.algo=conv_generic", "a.layout=plain"), "a")["outputs"] == ["plain"]
    every = build(model, "[ac].algo=conv_direct", "[ac].layout=b8")
    assert {row(every, name)["kernel"] for name in "ac"} == {"conv_direct"}
    knobs = dict(row(every, "a")["knobs"])                     # type: ignore[call-overload]
    name, value = next((k, v) for k, v in knobs.items() if v == 1)
    fixed = row(build(model, "a.algo=conv_direct", f"a.{name}={value}"), "a")
    assert dict(fixed["knobs"])[name] == value                 # type: ignore[call-overload]


def test_a_search_keeps_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("META_INFER_LIBRARY", str(tmp_path / "library.sqlite"))
    result = build(small_model(tmp_path), "c.algo=conv_direct", search_mode="fast", search_seconds=6)
    assert row(result, "c")["kernel"] == "conv_direct"


@pytest.mark.parametrize("pin, match", [
    ("q.algo=winograd", "did you mean|has no node 'q'"),
    ("y.algo=winograd", "may be gemm"),
    ("a.algo=winogard", "did you mean a.algo=conv_winograd"),
    ("a.layout=b16", "makes"),
    ("a.tiles=3", "has no knob 'tiles'"),
    ("a.columns=0", "has no such columns: it offers"),
    ("a.vectors=-1", "has no such vectors"),
    ("a.columns=x", "has no such columns"),
    ("y.tile=x", "has no such tile"),
    ("y.block_rows=0", "has no such block_rows"),
])
def test_what_cannot_be_says_why(tmp_path: Path, pin: str, match: str) -> None:
    with pytest.raises(UsageError, match=match) as error:
        build(small_model(tmp_path), pin)
    assert f"--pin {pin}" in str(error.value)


def test_a_knob_that_is_refused_says_why(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="refuses it"):
        build(small_model(tmp_path), "a.algo=conv_direct", "a.columns=999")


def test_a_lock_gives_the_same_choices(tmp_path: Path) -> None:
    model = small_model(tmp_path)
    first = build(model, "a.algo=winograd_f2", "c.algo=conv_generic")
    lock = lock_of(first)
    assert first.path is not None
    kept = first.path.rename(tmp_path / "kept.bin")
    for source in (kept, tmp_path / "build.lock.json"):
        (tmp_path / "build.lock.json").write_text(json.dumps(lock))
        assert lock_of(build(model, replay=source))["choices"] == lock["choices"]


def test_a_lock_that_does_not_fit_says_so(tmp_path: Path) -> None:
    model = small_model(tmp_path)
    lock = lock_of(build(model))
    path = tmp_path / "build.lock.json"
    with pytest.raises(InputError, match="cannot be read"):
        build(model, replay=path)
    for text, match in (("{", "neither a lock"), ("[]", "neither a lock"),
                        ('{"choices": {"aarch64": []}}', "only for aarch64"),
                        ('{"choices": {"x86-64-v3": [{}]}}', "choice that is none"),
                        ('{"choices": {"x86-64-v3": []}}', "does not fit")):
        path.write_text(text)
        with pytest.raises(InputError, match=match):
            build(model, replay=path)
    knobs = lock["choices"]["x86-64-v3"][0]["knobs"]
    for edited in ({"nothing": 1}, dict.fromkeys(knobs, 0), dict.fromkeys(knobs, "x"), dict.fromkeys(knobs, 1.5)):
        lock["choices"]["x86-64-v3"][0]["knobs"] = edited
        path.write_text(json.dumps(lock))
        with pytest.raises(InputError, match="does not have|does not fit"):
            build(model, replay=path)


def test_a_pin_that_contradicts_a_lock_says_so(tmp_path: Path) -> None:
    model = small_model(tmp_path)
    path = tmp_path / "build.lock.json"
    path.write_text(json.dumps(lock_of(build(model, "a.algo=winograd_f2"))))
    assert row(build(model, "a.algo=winograd_f2", replay=path), "a")["variant"] == "winograd_f2"
    with pytest.raises(UsageError, match="--pin a.algo=conv_generic: contradicts --replay"):
        build(model, "a.algo=conv_generic", replay=path)

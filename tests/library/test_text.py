"""Exports read back to the same rows, and whatever a hand does to them is either taken or named by line and field."""

from __future__ import annotations

import json
import random
import string
from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from meta_infer.library.decisions import Decision
from meta_infer.library.exchange import export_library, import_file
from meta_infer.library.read_text import read_text
from meta_infer.library.samples import Sample
from meta_infer.library.store import Library, Merged
from meta_infer.library.write_text import Form, is_export, write_text
from meta_infer.support.errors import LibraryError, UsageError
from tests.library.made_up import decision, failed, sample

FORMS: tuple[Form, ...] = ("yaml", "json")
TIME = "2026-11-30T08:00:00Z"
NUMBERS = st.floats(0, 1e30, allow_nan=False)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
LOOKS = st.sampled_from(["yes", "1e5", "0x1f", "null", "~", "12", "a: b", "- a", "1_0", ".inf"])
NAMES = TEXTS.filter(str.strip) | LOOKS
SAMPLES = st.builds(
    Sample, kernel=NAMES, variant=NAMES, key=NAMES, op=TEXTS, group=TEXTS, knobs=st.dictionaries(
        TEXTS, st.integers(-1 << 70, 1 << 70) | TEXTS, max_size=3), layouts=st.dictionaries(TEXTS, TEXTS, max_size=2),
    threads=st.integers(1, 1 << 40), dims=st.lists(st.integers(0, 1 << 62), max_size=4).map(tuple),
    features=st.dictionaries(TEXTS, st.floats(allow_nan=False, allow_infinity=False), max_size=3),
    seconds=NUMBERS.filter(bool) | st.just(float("inf")), spread=NUMBERS, peak=NUMBERS, rounds=st.integers(0, 99),
    turns=st.lists(st.tuples(NUMBERS, NUMBERS), max_size=3).map(tuple), status=NAMES, made=st.just(TIME))


@pytest.mark.parametrize("form", FORMS)
def test_plain_rows_come_back(form: Form) -> None:
    samples, decisions = [sample("a1"), failed("b1")], [decision(), decision("g2", layouts={}, model="")]
    text = write_text(samples, decisions, form)
    assert read_text(text, form, "f") == (samples, sorted(decisions, key=lambda d: d.place))
    assert write_text(samples[::-1], decisions[::-1], form) == text and is_export(text.encode()[:200])
    assert read_text(write_text([], [], form), form, "f") == ([], [])
    others = json.loads(text) if form == "json" else YAML(typ="safe", pure=True).load(text)
    assert others["samples"][0]["knobs"] == {"rows": 4, "order": "hw"} and others["samples"][1].get("seconds") is None


@settings(max_examples=60, deadline=None)
@given(SAMPLES)
def test_any_row_comes_back(row: Sample) -> None:
    for form in FORMS:
        assert read_text(write_text([row], [], form), form, "f") == ([row], [])


def test_any_row_comes_back_from_the_file(tmp_path: Path) -> None:
    with Library.open(tmp_path / "library.sqlite") as library:
        @settings(max_examples=60, deadline=None)
        @given(SAMPLES)
        def check(row: Sample) -> None:
            library.add([row])
            assert library.known([row.key]) == {row.key: row}
        check()


EDITS = [
    ("rounds: 15", "rounds: many", "rounds: expected a whole number that is not negative, got 'many'"),
    ("rounds: 15", "rounds: -1", "rounds: expected"), ("rounds: 15", "rounds: 1.5", "rounds: expected"),
    ("rounds: 15", "round: 15", "round: is no field of samples, did you mean 'rounds'?"),
    ("rounds: 15", "threads: 2", "'threads' stands there twice"),
    ("seconds: 0.0023", "seconds: 0", "seconds: expected seconds above 0, or null where it failed, got 0"),
    ("seconds: 0.0023", "seconds: fast", "seconds: expected"), ("spread: 1.5e-05", "spread: null", "spread: expected"),
    ("threads: 1", "threads: yes", "threads: expected"), ("rows: 4", "rows: [4]", "knobs: expected names with whole"),
    ("rows: 4", "rows: 4.5", "knobs: expected"),
    ("kernel: conv_direct", "kernel: ''", "kernel: expected a text that is"),
    ("kernel: conv_direct", "kernel: 12", "kernel: expected a text"),
    ("protocol: 1", "protocol: x", "protocol: expected"),
    ("features: {", "features: {a: b, ", "features: expected names with finite numbers"),
    ("dims: [1,", "dims: [one,", "dims: expected a list of whole numbers"),
    ("2026-11-30T08:00", "noon", "made: expected a"), ("0.00231@", "0.00231 ", "turns: expected pairs"),
    ("x86-64-v3\n", "&a x86-64-v3\n  cpu: *a\n", "second time by an alias"),
]


@pytest.mark.parametrize(("old", "new", "message"), EDITS)
def test_a_wrong_field_is_named_with_its_line(old: str, new: str, message: str) -> None:
    text = write_text([sample("a1"), sample("b1"), sample("c1")], [decision()], "yaml")
    begin = text.index("- key: b1")
    at = text.index(old, begin)
    edited = text[:at] + text[at:].replace(old, new, 1)
    with pytest.raises(LibraryError) as error:
        read_text(edited, "yaml", "mine.yaml")
    line = edited.count("\n", 0, edited.index(new, begin)) + 1
    assert "library: mine.yaml: " in str(error.value) and message in str(error.value)
    assert f"line {line}: " in str(error.value) or f"line {line + 1}: " in str(error.value) and "alias" in message
    if "twice" not in message and "alias" not in message:
        assert f"line {line}: samples[1].{message}" in str(error.value)


@pytest.mark.parametrize(("old", "new", "message"), [
    ('"rounds": 15', '"rounds": "many"', ": samples[1].rounds: expected a whole number"),
    ('"rounds": 15', '"rounds": 15, "rounds": 16', ": is not JSON: 'rounds' stands there twice"),
    ('"rounds": 15', '"rounds" 15', ": is not JSON: expected a name in quotes and ':'"),
    ('"rounds": 15,', '"rounds": 15 ""', ": is not JSON: expected ',' or '}'"),
    ('"rounds": 15', '"rounds": 15,,', ": is not JSON: Expecting value"),
    ('"decisions"', '"decision"', ": 'decision' is unknown here"), ('{"rows": 4', '{"rows": [', ": is not JSON: "),
    ('"kernel": "conv_direct",', "", ": samples[1].kernel: is missing"),
])
def test_a_wrong_field_of_json(old: str, new: str, message: str) -> None:
    text = write_text([sample("a1"), sample("b1")], [decision()], "json")
    at = text.index(old, text.index('"key": "b1"'))
    line = text.count("\n", 0, at if new else text.index('"key": "b1"')) + 1
    with pytest.raises(LibraryError) as error:
        read_text(text[:at] + text[at:].replace(old, new, 1), "json", "mine.json")
    assert f"library: mine.json: line {line}{message}" in str(error.value)
    with pytest.raises(LibraryError, match="line 1: library: is of version 2, this meta-infer knows 1"):
        read_text(text.replace('"library": 1', '"library": 2'), "json", "mine.json")


def test_several_problems_are_listed() -> None:
    text = write_text([sample(f"a{i}") for i in range(9)], [], "yaml").replace("rounds: 15", "rounds: no")
    with pytest.raises(LibraryError, match="9 problems") as error:
        read_text(text, "yaml", "f")
    assert str(error.value).count("\n  line ") == 5 and "and 4 more" in str(error.value)


@pytest.mark.parametrize(("text", "message"), [
    ("", "no field 'library'"), ("- 1", "no field 'library'"), ("library: 1\nsamples: 3", "samples: expected a list"),
    ("library: true", "is of version True"), ("library: 1\nsamples:\n- 3", "line 3: samples[0]: expected fields"),
    ("library: 1\nsamples:\n- kernel: a", "line 3: samples[0].variant: is missing"), ("{" * 400, ""),
    ("library: 1\nsamples:\n- {key: a, kernel: k, variant: v}\n- {key: a, kernel: k, variant: v}",
     "line 4: samples[1]: has the same key as samples[0]"), ("library: [", "is not YAML"),
    ("a: b: c", "line 1: is not YAML"),
    ("library: 1\n---\nlibrary: 1", "is not YAML"), ("library: 1\n? [a, b]\n: c", "is unknown here"),
    ("library: " + "9" * 6000, "is of version"), ("library: 2026-99-99", "is of version '2026-99-99'"),
    ("library: 1\nsamples:\n- {kernel: k, variant: v}", "samples[0].key: is missing"),
    ("library: 1\ndecisions:\n- {structure: s, group: g, kernel: k, variant: v}",
     "decisions[0].capabilities: is missing"),
])
def test_a_wrong_text(text: str, message: str) -> None:
    for form in FORMS:
        with pytest.raises(LibraryError) as error:
            read_text(text, form, "f")
        if form == "yaml":
            assert message in str(error.value), error.value


def test_a_spoilt_text_never_ends_otherwise() -> None:
    rng = random.Random(5)
    for form in FORMS:
        text = write_text([sample("a1"), failed("b1")], [decision()], form)
        for _ in range(60 if form == 'yaml' else 600):
            at = rng.randrange(len(text))
            spoilt = text[:at] + rng.choice(string.printable) * rng.randrange(3) + text[at + rng.randrange(6):]
            try:
                samples, decisions = read_text(spoilt, form, "f")
            except LibraryError:
                continue
            write_text(samples, decisions, form)


def test_fields_may_be_left_out() -> None:
    (found,), _ = read_text("library: 1\nsamples:\n- {key: a, kernel: k, variant: v, made: 2026-11-30}", "yaml", "f")
    assert found == replace(Sample("k", "v", key="a"), made="2026-11-30T00:00:00Z")
    assert {f.name for f in fields(Decision)} >= {"model", "key"}


def test_files(tmp_path: Path) -> None:
    with Library.open(tmp_path / "a.sqlite") as one, Library.open(tmp_path / "b.sqlite") as other:
        one.add([sample("a1"), sample("b1", cpu="Cortex-A76"), failed("c1")])
        one.decide([decision()])
        for name in ("export.yaml", "export.yml", "export.json"):
            assert export_library(one, tmp_path / name) == (3, 1)
        assert export_library(one, tmp_path / "arm.json", cpu="cortex") == (1, 0)
        assert import_file(other, tmp_path / "arm.json") == Merged(1, 0, 0)
        assert import_file(other, tmp_path / "export.yaml") == Merged(3, 1, 0)
        assert other.samples() == one.samples() and other.decisions() == one.decisions()
        assert export_library(other, tmp_path / "again.yml") == (3, 1)
        assert (tmp_path / "again.yml").read_bytes() == (tmp_path / "export.yaml").read_bytes()
        edited = (tmp_path / "export.yaml").read_text().replace("seconds: 0.0023", "seconds: 0.0001")
        (tmp_path / "edited").write_text(edited)
        assert import_file(other, tmp_path / "edited").kept == 2, "less precise than what is there"
        assert import_file(other, tmp_path / "edited", replace_all=True) == Merged(0, 4, 0)
        assert other.known(["a1"])["a1"].seconds == 0.0001
        assert import_file(one, tmp_path / "b.sqlite", replace_all=True) == Merged(0, 4, 0)
        assert one.samples() == other.samples()


def test_files_that_are_refused(tmp_path: Path) -> None:
    (tmp_path / "model.yaml").write_text("devices: []")
    (tmp_path / "data.bin").write_bytes(b"\xff\xfe" * 9)
    with Library.open(tmp_path / "a.sqlite") as library:
        library.add([sample()])
        for name, message in (("export.txt", "is neither .yaml nor .json"), ("no/export.yaml", "cannot be written"),
                              ("model.yaml", "is not an exported library")):
            with pytest.raises(UsageError, match=message):
                export_library(library, tmp_path / name)
        for name, message in (("none.yaml", "cannot be read"), ("a.sqlite", "is the library itself")):
            with pytest.raises(UsageError, match=message):
                import_file(library, tmp_path / name)
        for name, message in (("data.bin", "is neither an exported"), ("model.yaml", "no field 'library'")):
            with pytest.raises(LibraryError, match=message):
                import_file(library, tmp_path / name)
        (tmp_path / "half.yaml").write_text(write_text([sample("new"), sample("x")], [], "yaml").replace(
            "key: x", "keys: x"))
        with pytest.raises(LibraryError):
            import_file(library, tmp_path / "half.yaml")
        assert library.counts().samples == 1, "nothing of a wrong file"


def test_the_page_has_every_field() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "library.md").read_text(encoding="utf-8")
    for kind, head in ((Sample, "| field of a sample |"), (Decision, "| field of a decision |")):
        rows = page[page.index(head):].split("\n\n")[0].splitlines()[2:]
        named = {name.strip(" `") for row in rows for name in row.split("|")[1].split(",")}
        assert {f.name for f in fields(kind)} == named

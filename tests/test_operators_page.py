"""docs/operators.md says what the registries say."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from meta_infer.ops.gaps import GAPS
from meta_infer.ops.opdef import NEWEST_OPSET, OnnxImport
from meta_infer.ops.registry import RULES

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("list_operators", ROOT / "tools" / "list_operators.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date(tool: ModuleType) -> None:
    committed = (ROOT / "docs" / "operators.md").read_text(encoding="utf-8")
    assert committed == tool.page(), "run: python tools/list_operators.py"


def test_every_import_and_gap_has_its_row(tool: ModuleType) -> None:
    rows = tool.import_rows()
    assert {row[0] for row in rows} == {tool.full_name(rule) for rule in RULES}
    assert all(len(row) == 5 and row[0] and row[1] and row[3] and row[4] for row in rows)
    assert tool.page().count("\n| ") >= len(rows) + len(GAPS)


@pytest.mark.parametrize(("rules", "text"), [
    ([(1, 9)], "1-9"),
    ([(1, 9), (10, NEWEST_OPSET)], "1+"),
    ([(13, NEWEST_OPSET), (1, 10)], "1-10, 13+"),
    ([(10, 10)], "10"),
])
def test_versions(tool: ModuleType, rules: list[tuple[int, int]], text: str) -> None:
    assert tool.versions([OnnxImport("X", since, until) for since, until in rules]) == text


def test_writing_it(tool: ModuleType, tmp_path: Path) -> None:
    assert tool.main([str(tmp_path / "page.md")]) == 0
    assert (tmp_path / "page.md").read_text(encoding="utf-8") == tool.page()

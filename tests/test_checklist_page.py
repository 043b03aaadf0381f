"""docs/checklist.md says what the checklist says, and its example loads."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from meta_infer.checklist.schema import load_checklist

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("list_checklist", ROOT / "tools" / "list_checklist.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date(tool: ModuleType) -> None:
    committed = (ROOT / "docs" / "checklist.md").read_text(encoding="utf-8")
    assert committed == tool.page(), "run: python tools/list_checklist.py"


def test_the_example_loads(tool: ModuleType, tmp_path: Path) -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", tool.page(), re.DOTALL)
    (tmp_path / "my.yaml").write_text(example)
    items = {item.id: item for item in load_checklist(tmp_path / "my.yaml")}
    assert {"no_resize", "strides", "flash"} <= items.keys() and "default_attributes" not in items
    assert items["fp16_overflow"].severity == "blocker"

"""docs/kernels.md says what the registry of kernels says."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from meta_infer.hardware.load import load_profile
from meta_infer.kernels.kernel import Kernel
from meta_infer.kernels.registry import KERNELS

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("list_kernels", ROOT / "tools" / "list_kernels.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def page(tool: ModuleType) -> str:
    return str(tool.page())


def test_the_page_is_up_to_date(page: str) -> None:
    committed = (ROOT / "docs" / "kernels.md").read_text(encoding="utf-8")
    assert committed == page, "run: python tools/list_kernels.py"


def test_every_kernel_has_its_part(page: str) -> None:
    for kernel in KERNELS:
        assert f"\n## {kernel.name}\n\n" in page
        part = page.split(f"\n## {kernel.name}\n\n")[1]
        assert len(part.splitlines()[0]) > 20, f"the note of {kernel.name} begins with what it computes"


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_knobs_are_complete(kernel: Kernel, tool: ModuleType) -> None:
    """Every variant has a value for each of its knobs, and it is one of those worth trying."""
    profile = load_profile(tool.PROFILE)
    for op in kernel.anchors:
        for group in tool.groups_of(op):
            for variant in kernel.variants(group, profile):
                knobs = {knob.name: knob.values for knob in kernel.knobs(group, variant, profile)}
                if knobs:
                    assert set(knobs) == set(variant.knobs), variant.name
                    assert all(variant.knobs[name] in values for name, values in knobs.items()), variant.name
                tuned = kernel.tune(group, variant, dict(variant.knobs), profile)
                assert tuned == variant, f"{variant.name}: its own values make another variant of it"

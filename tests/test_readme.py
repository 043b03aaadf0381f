"""The two READMEs say the same, and what they point to exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
READMES = ("README.md", "README.zh-CN.md")


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_both_have_the_same_code_and_sections() -> None:
    english, chinese = map(text_of, READMES)
    fences = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
    assert fences.findall(english) == fences.findall(chinese)
    headings = re.compile(r"^#+", re.MULTILINE)
    assert headings.findall(fences.sub("", english)) == headings.findall(fences.sub("", chinese))


@pytest.mark.parametrize("name", READMES)
def test_links_and_profiles_exist(name: str) -> None:
    text = text_of(name)
    targets = re.findall(r"\]\(([^)#:]+)\)", text) + re.findall(r"profiles/[\w.-]+", text)
    assert len(targets) >= 5
    assert [target for target in targets if not (ROOT / target).exists()] == []


def test_ci_finds_its_commands() -> None:
    wanted = re.findall(r"readme_command (\w+)\)", text_of(".ci/run"))
    assert wanted == ["demo", "test"]
    for marker in wanted:
        pattern = rf"^<!-- ci:{marker} -->\n```sh\n(.+)\n```\n<!-- /ci -->$"
        block = re.search(pattern, text_of("README.md"), re.MULTILINE)
        assert block is not None and block[1].startswith("python3 -m venv .venv && "), marker

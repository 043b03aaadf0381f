"""What the documentation tells people to type exists: commands, options, passes, steps, pages."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer

from meta_infer.build_config import make_config
from meta_infer.cli.main import app
from meta_infer.passes.pipeline import check_pass_names
from meta_infer.search.exclude import check_kernel_names

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*(ROOT / "docs").glob("*.md"), ROOT / "README.md", ROOT / "README.zh-CN.md"])
COMMAND = re.compile(r"(?:\w+=(?:\"[^\"]*\"|\S*) +)*(?:\S*/)?meta-infer +(.*)")
SWITCH = re.compile(r"META_INFER_[A-Z]+")


def commands_of(text: str) -> list[list[str]]:
    """The words of every meta-infer command in ```sh fences, without variables before it and pipes behind it."""
    found = []
    for block in re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            if match := COMMAND.fullmatch(line.strip()):
                words = shlex.split(match[1], comments=True)
                end = next((i for i, word in enumerate(words) if word in ("|", ">", "&&")), len(words))
                found.append(words[:end])
    return found


def parse(words: list[str]) -> dict[str, Any]:
    """The parameters that a command line gives; click raises where a command or an option does not exist."""
    command, name = typer.main.get_command(app), "meta-infer"
    while hasattr(command, "commands"):
        name, words = words[0], words[1:]
        assert name in command.commands, f"no such command: {name}"
        command = command.commands[name]
    return dict(command.make_context(name, list(words)).params)


COMMANDS = [pytest.param(words, id=f"{page.name}: {' '.join(words)}"[:90])
            for page in PAGES for words in commands_of(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("words", COMMANDS)
def test_commands_parse(words: list[str]) -> None:
    params = parse(words)
    if words[0] == "build":
        check_pass_names(params["disable"] or ())
        check_kernel_names(params["exclude"] or ())
        given = {field: params[field] for field in ("stop_after", "precision", "search_mode", "isa") if params[field]}
        make_config({"model": "model.onnx", **given}, "documentation")


def test_the_check_can_fail() -> None:
    assert len(COMMANDS) > 30
    assert commands_of("```sh\nX=1 Y=\"a b\" .venv/bin/meta-infer run a.bin \\\n  --seed 1 | head\nls\n```\n") == [
        ["run", "a.bin", "--seed", "1"]]
    with pytest.raises(AssertionError, match="no such command"):
        parse(["bake", "a.bin"])
    wrong = {"NoSuchOption": ["run", "a.bin", "--sead", "1"], "BadParameter": ["bench", "a.bin", "--threads", "many"],
             "MissingParameter": ["run"]}
    for name, words in wrong.items():
        with pytest.raises(Exception) as caught:       # noqa: B017 - typer brings its own copy of click
            parse(words)
        assert type(caught.value).__name__ == name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_of_pages_exist(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_switches_that_pages_name_exist(page: Path) -> None:
    """Every META_INFER_ variable of a page is read somewhere; some belong to tests and benchmarks."""
    known = set(SWITCH.findall((ROOT / "src/meta_infer/support/switches.py").read_text(encoding="utf-8")))
    assert set(SWITCH.findall(page.read_text(encoding="utf-8"))) <= known | {"META_INFER_MODELS", "META_INFER_FUZZ"}


def test_the_page_of_switches_has_them_all() -> None:
    known = set(SWITCH.findall((ROOT / "src/meta_infer/support/switches.py").read_text(encoding="utf-8")))
    page = (ROOT / "docs/environment.md").read_text(encoding="utf-8")
    assert {name for name in known if f"## {name}\n" not in page} == set()


@pytest.mark.parametrize("page", ["dependencies.md", "third-party-licences.md"])
def test_every_dependency_has_its_row(page: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *(w for extra in project["optional-dependencies"].values() for w in extra)]
    names = {re.split(r"[<>=\[]", requirement)[0] for requirement in wanted} - {"meta-infer"}
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    assert {name for name in names if f"| {name} |" not in text} == set()

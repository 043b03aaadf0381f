"""Every message of the frontend, of legalize and of the importers: its whole text, and that no message is untested."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

import meta_infer

from .error_goldens import Golden, all_goldens, catch
from .unreached_errors import UNREACHED

SOURCE = Path(meta_infer.__file__).parent
ERRORS = {"ModelError", "UnsupportedError", "UsageError", "ShapeError", "unsupported"}
GOLDENS = all_goldens()


@dataclass(frozen=True)
class Site:
    """A place that makes a user's error: its words with what is filled in as `.*`, and the lines of its raise."""

    file: str
    function: str
    words: str
    lines: range
    raised: bool

    def __str__(self) -> str:
        return f"{self.file}:{self.function}: {self.words}"


@pytest.mark.parametrize("golden", GOLDENS, ids=lambda golden: golden.name)
def test_the_whole_text(golden: Golden) -> None:
    caught = catch(golden)
    assert caught.text == golden.text
    assert caught.error.hint and caught.error.what, "every error says where, and what to try"


def test_names_are_unique() -> None:
    names = [golden.name for golden in GOLDENS]
    assert len(set(names)) == len(names)


def test_every_message_has_a_golden() -> None:
    """Each place is passed by a golden, or listed as one that no model reaches; nothing is listed that is reached."""
    passed = {(Path(file), line) for golden in GOLDENS for file, line in catch(golden).places}
    texts = [catch(golden).error.problem for golden in GOLDENS]
    missing, reached = [], []
    for site in sites():
        hit = any((SOURCE / site.file, line) in passed for line in site.lines) if site.raised else \
            any(re.search(site.words, text, re.DOTALL) for text in texts)
        listed = any(_is_listed(site, file, part) for file, part in UNREACHED)
        if not hit and not listed:
            missing.append(str(site))
        if hit and listed:
            reached.append(str(site))
    assert not missing, "\n".join(["write a golden for:", *missing])
    assert not reached, "\n".join(["take off the list of what is not reached:", *reached])


def test_the_list_of_what_is_not_reached_is_up_to_date() -> None:
    for file, part in UNREACHED:
        assert any(_is_listed(site, file, part) for site in sites()), f"{file}: {part}"


def _is_listed(site: Site, file: str, part: str) -> bool:
    return site.file == file and part in site.words.replace("\\", "")


@cache
def sites() -> tuple[Site, ...]:
    files = [*(SOURCE / "frontend").glob("*.py"), SOURCE / "passes/legalize.py", *(SOURCE / "ops").glob("*.py")]
    return tuple(site for file in sorted(files) for site in _sites(file))


def _sites(file: Path) -> Iterator[Site]:
    tree = ast.parse(file.read_text())
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        raised = {id(call): node for node in ast.walk(function) if isinstance(node, ast.Raise) and node.exc is not None
                  for call in ast.walk(node.exc)}
        nested = [node for node in ast.walk(function) if isinstance(node, ast.FunctionDef) and node is not function]
        inner = {id(node) for other in nested for node in ast.walk(other)}
        for call in (node for node in ast.walk(function) if isinstance(node, ast.Call) and id(node) not in inner):
            if not isinstance(call.func, ast.Name) or call.func.id not in ERRORS:
                continue
            message = call.args[1 if call.func.id == "unsupported" else 0]
            place = raised.get(id(call))
            lines = range(place.lineno, (place.end_lineno or place.lineno) + 1) if place else range(0)
            yield Site(str(file.relative_to(SOURCE)), function.name, _words(message), lines, place is not None)


def _words(message: ast.expr) -> str:
    """A pattern of the message: constant parts as they are, anything for the rest."""
    if isinstance(message, ast.Constant):
        return re.escape(str(message.value))
    if isinstance(message, ast.JoinedStr):
        return "".join(map(_words, message.values))
    if isinstance(message, ast.BinOp):
        return _words(message.left) + _words(message.right)
    return ".*"

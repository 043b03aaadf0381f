"""Checklist files: what ships is complete, a user's file changes and extends it, and mistakes are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from meta_infer.checklist.probes import PROBES
from meta_infer.checklist.schema import SEVERITIES, Item, load_checklist
from meta_infer.support.errors import UsageError

BOARD = """items:
  - id: no_resize
    title: Not on our board
    severity: blocker
    probe: ops_present
    params: {ops: [Resize, Upsample]}
    message: "{op} is not allowed on our board: {where}"
    hint: use a ConvTranspose
  - {id: memory, enabled: false}
  - {id: fp16_overflow, severity: blocker, params: {limit: 1000}}
"""


def load(text: str, folder: Path) -> dict[str, Item]:
    path = folder / "my.yaml"
    path.write_text(text)
    return {item.id: item for item in load_checklist(path)}


def test_what_ships() -> None:
    items = load_checklist()
    assert len({item.id for item in items}) == len(items) > 35
    assert all(item.severity in SEVERITIES and item.title and item.message for item in items)
    rules = {"ops_present", "ops_outside", "size_limits", "tensor_limits", "attribute_values"}
    assert {item.probe.name for item in items} == set(PROBES) - rules


def test_a_file_adds_changes_and_removes(tmp_path: Path) -> None:
    shipped, items = {item.id: item for item in load_checklist()}, load(BOARD, tmp_path)
    assert items.keys() == shipped.keys() - {"memory"} | {"no_resize"}
    assert items["no_resize"].severity == "blocker" and list(items)[-1] == "no_resize"
    changed, was = items["fp16_overflow"], shipped["fp16_overflow"]
    assert (changed.severity, changed.message) == ("blocker", was.message)
    assert changed.params.limit == 1000 and was.params.limit == 65504  # type: ignore[attr-defined]


NEW = "items:\n  - {id: mine, title: t, severity: note, probe: ops_present, params: {ops: [Relu]}, message: m"
MISTAKES = {
    "no_list": ("rules: []", "expected one key, `items`, with a list", "my.yaml"),
    "yaml": ("items:\n  - [", "line ", "my.yaml"),
    "not_a_mapping": ("items: [hello]", "expected a mapping of keys", "item 1"),
    "no_id": ("items: [{severity: note}]", "is missing", "item 1: id"),
    "bad_id": ("items: [{id: My Item}]", "should match pattern", "item 'My Item': id"),
    "twice": ("items: [{id: memory}, {id: memory}]", "stands twice", "item 'memory'"),
    "unknown_field": ("items: [{id: memory, severty: note}]", "did you mean 'severity'?", "item 'memory': severty"),
    "severity": ("items: [{id: memory, severity: fatal}]", "expected 'blocker', 'warning' or 'note', got 'fatal'",
                 "item 'memory': severity"),
    "incomplete": ("items: [{id: mine, severity: note}]", "title is missing", "item 'mine'"),
    "no_probe": ("items: [{id: memory, probe: ops_presnt}]", "there is no probe 'ops_presnt'", "item 'memory': probe"),
    "unknown_param": (NEW.replace("ops:", "opps:") + "}", "did you mean 'ops'?", "item 'mine': params.opps"),
    "param_type": (NEW.replace("[Relu]", "Relu") + "}", "expected a list, got 'Relu'", "item 'mine': params.ops"),
    "param_range": ("items: [{id: fp16_overflow, params: {limit: -1}}]", "greater than 0",
                    "item 'fp16_overflow': params.limit"),
    "placeholder": (NEW.replace("message: m", 'message: "{nodes}"') + "}", "placeholder 'nodes' is unknown; it may use "
                    "{op}, {where}, {count}", "item 'mine': message"),
    "hint_placeholder": (NEW + ', hint: "{0}"}', "placeholder '0' is unknown", "item 'mine': hint"),
    "braces": (NEW.replace("message: m", 'message: "{op"') + "}", "braces do not match", "item 'mine': message"),
    "show": (NEW + ", show: 0}", "greater than or equal to 1", "item 'mine': show"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_name_item_and_field(name: str, tmp_path: Path) -> None:
    text, problem, what = MISTAKES[name]
    with pytest.raises(UsageError) as caught:
        load(text, tmp_path)
    assert problem in caught.value.problem + caught.value.hint and what in caught.value.what
    assert caught.value.hint


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        load_checklist(tmp_path / "none.yaml")

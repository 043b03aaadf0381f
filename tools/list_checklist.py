#!/usr/bin/env python3
"""Writes docs/checklist.md: the items of the conversion checklist and the probes that compute them.

    python tools/list_checklist.py [FILE]           default: docs/checklist.md

Everything comes from checklist.yaml and from the table of probes: the page cannot disagree with them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from pydantic.fields import FieldInfo

from meta_infer.checklist.probes import PROBES
from meta_infer.checklist.schema import Item, ItemFields, load_checklist

PAGE = Path(__file__).resolve().parent.parent / "docs" / "checklist.md"

HEAD = """# Conversion checklist

Written by `python tools/list_checklist.py` from `src/meta_infer/checklist/`, and a test compares the two. Edit those,
not this page.

```sh
meta-infer check model.onnx --hardware edge_npu_v2
```

prints what stands between a model and a chip before anything is built. Nothing is compiled and nothing is run: the
file, the graph that it imports to, and the profile are looked at. `--hardware` takes what `build` takes (default
`native`), `--shape` narrows dynamic sizes as in `build`, `--explain` adds what becomes of each operator, `--json`
prints all findings as data.

The JSON has `model`, `hardware`, `counts` by severity, and `findings`, each with `item`, `title`, `severity`,
`message`, `hint` and `where` (the names of all nodes or tensors it is about); with `--explain` also `operators`.

| severity | meaning |
|---|---|
| blocker | the model does not run on the chip; the command exits with 10 |
| warning | results, speed or memory may not be what was hoped for |
| note | worth knowing, or worth comparing with the training framework |

The last line counts them. A model that breaks the ONNX specification is one blocker that says why, and nothing else of
it is looked at. An operator that is not supported is a blocker of its own, for each node that has it.

Items marked *low precision* are looked at only when the chip's best element type has fewer than 32 bits (the first of
the profile's `precision`), or the model itself computes in float16 or bfloat16.

"""

EXTEND = """
## A checklist of one's own

`--checklist my.yaml` changes items of the list above and adds others. The file has one key, `items`. An item whose `id`
stands in the table above changes just the fields it gives (`params` as a whole); `enabled: false` leaves it out. A new
item needs `title`, `severity`, `probe` and `message`.

```yaml
items:
  - id: no_resize
    title: Not on our board
    severity: blocker
    probe: ops_present
    params: {ops: [Resize, Upsample]}
    message: "{op} is not allowed on our board: {where}"
    hint: use a ConvTranspose
  - id: strides
    title: Strides of the line buffer
    severity: blocker
    probe: attribute_values
    params: {op: Conv, attribute: strides, most: 2}
    message: "Conv with strides {value}: {where}"
  - id: flash
    title: Size of our flash
    severity: blocker
    probe: size_limits
    params: {weight_mib: 4}
    message: "{what} is {value}, our flash holds {most}"
  - {id: fp16_overflow, severity: blocker}
  - {id: default_attributes, enabled: false}
```

A mistake is an error that names the item and the field.

"""


def page() -> str:
    return HEAD + "".join(_lines())


def _lines() -> Iterator[str]:
    yield "## Items\n\n| id | severity | checks | computed by | says |\n|---|---|---|---|---|\n"
    for item in load_checklist():
        yield _row(f"`{item.id}`", item.severity + (", low precision" if item.when != "always" else ""), item.title,
                   _probe_text(item), item.message + (f" *Try:* {item.hint}" if item.hint else ""))
    yield EXTEND
    yield "| field | meaning |\n|---|---|\n"
    for name, field in ItemFields.model_fields.items():
        yield _row(f"`{name}`", field.description or "")
    yield ("\n## Probes\n\nA message may use the placeholders of its probe, and always `{where}` (nodes or tensors) "
           "and `{count}` (how many).\n\n| probe | looks for | parameters | placeholders |\n|---|---|---|---|\n")
    for probe in PROBES.values():
        params = ", ".join(_param_text(name, field) for name, field in probe.params.model_fields.items())
        yield _row(f"`{probe.name}`", probe.about, params, ", ".join(f"`{{{name}}}`" for name in probe.values))


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |\n"


def _probe_text(item: Item) -> str:
    given = item.params.model_dump(exclude_none=True)
    shown = ", ".join(f"{name}: {_value_text(value)}" for name, value in given.items())
    return f"`{item.probe.name}`" + (f" ({shown})" if shown else "")


def _value_text(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _param_text(name: str, field: FieldInfo) -> str:
    if field.is_required():
        return f"`{name}`"
    default = "" if field.default is None else f", {_value_text(field.default)}"
    return f"`{name}` (optional{default})"


def main(arguments: list[str]) -> int:
    path = Path(arguments[0]) if arguments else PAGE
    path.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

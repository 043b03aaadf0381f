#!/usr/bin/env python3
"""Check the shape of the source tree: import direction, what the runtime needs, file length.

    python tools/check_imports.py [PACKAGE_FOLDER]      default: src/meta_infer beside this script

1. The folders of the package form rows (ROWS); an import points to the same folder or to a lower row. Imports
   inside functions and under TYPE_CHECKING count: they are dependencies of the reader all the same.
2. `runtime`, and every module it reaches, imports numpy, the standard library and `support`: nothing else but what
   RUNTIME_OPTIONAL names, and that only when it is needed: inside a function, in a `try` that handles ImportError.
3. No source file (.py, .c, .h) has more than 500 lines.

Prints one line per breach as `file:line: message`, and exits 1 if there is any.
"""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass
from pathlib import Path

PACKAGE = "meta_infer"
RULES = "tools/check_imports.py"
MAX_LINES = 500

# Highest first. The command line is a door in front of `api`; `demo` holds only data, for the command of
# that name.
ROWS: tuple[tuple[str, ...], ...] = (
    ("cli",),
    ("checking", "predicting", "suite", "checklist"),
    ("api", "demo"),
    ("report",),
    ("build_config",),
    ("guard", "custom"),
    ("search",),
    ("library",),
    ("package", "verify"),
    ("backends",),
    ("lower", "memory"),
    ("kernels", "schedule"),
    ("cost", "precision"),
    ("frontend", "passes"),
    ("ops",),
    ("ir", "hardware"),
    ("runtime",),
    ("support",),
)
LEVEL = {folder: level for level, row in enumerate(ROWS) for folder in row}
RUNTIME_EXTERNALS = {"numpy"}
# Used where it is there, and done without where it is not.
RUNTIME_OPTIONAL = {("support.dtypes", "ml_dtypes")}
# `meta_infer/__init__.py` hands out `load`, `build` and `compare`: above everything, as the outside world is.
ROOT = "__init__"


@dataclass(frozen=True)
class Import:
    """One imported module at one line. `module` is dotted and absolute: 'numpy.linalg'."""

    file: Path
    line: int
    importer: str
    module: str
    optional: bool = False      # inside a function, and done without where it cannot be imported


def module_name(file: Path, root: Path) -> str:
    """'meta_infer.ir.graph' for root/ir/graph.py; a package is named without its '__init__'."""
    parts = [PACKAGE, *file.relative_to(root).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(file: Path, root: Path, modules: set[str]) -> list[Import]:
    """All imports of a file. `from a import b` names `a.b` where that is one of `modules`, else `a`."""
    importer = module_name(file, root)
    package = importer.split(".") if file.name == "__init__.py" else importer.split(".")[:-1]
    found = []
    tree = ast.parse(file.read_text(encoding="utf-8"), str(file))
    guarded = guarded_lines(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            inner = [f"{origin}.{alias.name}" for alias in node.names]
            # The version is a plain string of the root that any layer may stamp on what it writes.
            inner = [name for name in inner if name != f"{PACKAGE}.__version__"]
            names = sorted({name if name in modules else origin for name in inner})
        else:
            continue
        found += [Import(file, node.lineno, importer, name, node.lineno in guarded) for name in names]
    return found


def guarded_lines(tree: ast.Module) -> set[int]:
    """Lines inside functions that stand in the body of a `try` with a handler of ImportError."""
    tries = [node for function in ast.walk(tree) if isinstance(function, ast.FunctionDef)
             for node in ast.walk(function) if isinstance(node, ast.Try)
             and any(isinstance(h.type, ast.Name) and h.type.id == "ImportError" for h in node.handlers)]
    return {line for node in tries for line in range(node.body[0].lineno, (node.body[-1].end_lineno or 0) + 1)}


def folder_of(module: str) -> str:
    """The row entry a module belongs to: 'ir' for meta_infer.ir.graph, '__init__' for the root."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ROOT


def check_direction(imports: list[Import]) -> list[str]:
    """Imports that point upwards or sideways, and folders that no row names."""
    problems = []
    for item in imports:
        source = folder_of(item.importer)
        if item.module.split(".")[0] != PACKAGE or source == ROOT:
            continue
        target = folder_of(item.module)
        if source == target:
            continue
        here = f"{item.file}:{item.line}"
        if source not in LEVEL:
            problems.append(f"{here}: folder '{source}' stands in no row of {RULES}")
        elif target not in LEVEL:
            problems.append(f"{here}: {source} imports {item.module}, which stands in no row of {RULES}")
        elif LEVEL[target] <= LEVEL[source]:
            way = "sideways" if LEVEL[target] == LEVEL[source] else "upwards"
            problems.append(f"{here}: {source} imports {target}: points {way} (ROWS of {RULES})")
    return problems


def check_runtime(imports: list[Import]) -> list[str]:
    """Everything `runtime` reaches may need only numpy, the standard library, `runtime` and `support`."""
    by_importer: dict[str, list[Import]] = {}
    for item in imports:
        by_importer.setdefault(item.importer, []).append(item)
    waiting = [name for name in by_importer if folder_of(name) == "runtime"]
    seen, problems = set(waiting), []
    while waiting:
        for item in by_importer.get(waiting.pop(), []):
            top = item.module.split(".")[0]
            if top == PACKAGE:
                if folder_of(item.module) not in ("runtime", "support"):
                    problems.append(f"{item.file}:{item.line}: the runtime reaches {item.module}: "
                                    f"it may import only `support` and numpy")
                # Importing a.b runs a/__init__.py too.
                for reached in (item.module, item.module.rpartition(".")[0]):
                    if reached not in seen:
                        seen.add(reached)
                        waiting.append(reached)
            elif item.optional and (item.importer.removeprefix(f"{PACKAGE}."), top) in RUNTIME_OPTIONAL:
                continue
            elif top not in RUNTIME_EXTERNALS and top not in sys.stdlib_module_names:
                problems.append(f"{item.file}:{item.line}: the runtime reaches {item.module}: "
                                f"loading a package may need only numpy and the standard library")
    return problems


def check_length(root: Path) -> list[str]:
    """Source files above the limit."""
    problems = []
    for file in sorted(f for f in root.rglob("*") if f.suffix in (".py", ".c", ".h")):
        lines = len(file.read_text(encoding="utf-8").splitlines())
        if lines > MAX_LINES:
            problems.append(f"{file}:1: {lines} lines, at most {MAX_LINES}: split it by idea")
    return problems


def check(root: Path) -> list[str]:
    """All breaches below `root`, the folder of the package, as printable lines."""
    files = sorted(root.rglob("*.py"))
    modules = {module_name(file, root) for file in files}
    imports = [item for file in files for item in imports_of(file, root, modules)]
    return check_direction(imports) + check_runtime(imports) + check_length(root)


def main(arguments: list[str]) -> int:
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent / "src" / PACKAGE
    if not (root / "__init__.py").is_file():
        print(f"{root}: not the folder of a package", file=sys.stderr)
        return 2
    problems = check(root)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

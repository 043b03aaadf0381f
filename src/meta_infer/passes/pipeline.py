"""Which passes run, and in which order."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable

from meta_infer.ir.graph import Graph
from meta_infer.passes import alternatives, moves
from meta_infer.passes.cancel_transposes import cancel_transposes
from meta_infer.passes.check_rewrite import check_rewrite
from meta_infer.passes.dump import dump_graph
from meta_infer.passes.eliminate_common_subexpressions import eliminate_common_subexpressions
from meta_infer.passes.eliminate_dead_code import eliminate_dead_code
from meta_infer.passes.fold_constants import fold_constants
from meta_infer.passes.fuse_batch_norm import fuse_batch_norm
from meta_infer.passes.fuse_conv_scale import fuse_conv_scale
from meta_infer.passes.fuse_pad import fuse_pad
from meta_infer.passes.inline_constant_branch import inline_constant_branch
from meta_infer.passes.keep_narrow_weights import keep_narrow_weights
from meta_infer.passes.raise_attention import raise_attention
from meta_infer.passes.raise_gelu import raise_gelu
from meta_infer.passes.raise_hard_sigmoid import raise_hard_sigmoid
from meta_infer.passes.raise_hard_swish import raise_hard_swish
from meta_infer.passes.raise_layer_norm import raise_layer_norm
from meta_infer.passes.raise_silu import raise_silu
from meta_infer.passes.remove_identity import remove_identity
from meta_infer.passes.simplify_arithmetic import simplify_arithmetic
from meta_infer.passes.simplify_reshape import simplify_reshape
from meta_infer.passes.sink_transposes import sink_transposes
from meta_infer.support.errors import UsageError
from meta_infer.support.switches import read_switches

Pass = Callable[[Graph], Graph]
Observer = Callable[[str, Graph, Graph], None]
"""Called with (pass, before, after) for every pass that changed something."""

CANONICALIZE: tuple[Pass, ...] = (
    keep_narrow_weights,
    fold_constants,
    inline_constant_branch,
    remove_identity,
    simplify_reshape,
    eliminate_common_subexpressions,
    eliminate_dead_code,
    simplify_arithmetic,
    # Raising comes before anything is folded into something else.
    raise_layer_norm,
    raise_gelu,
    raise_hard_swish,
    raise_hard_sigmoid,
    raise_silu,
    raise_attention,
    # Folding into the weights of linear ops.
    fuse_batch_norm,
    fuse_conv_scale,
    fuse_pad,
    # Data movement.
    sink_transposes,
    cancel_transposes,
    simplify_reshape,
    eliminate_dead_code,
)
MAX_ROUNDS = 8
FUSIONS = ("fuse_epilogue", "fuse_elementwise", *alternatives.FUSIONS, *moves.MOVES)
"""What passes/covers.py, passes/alternatives.py and passes/moves.py do; can be disabled likewise."""


def pass_names() -> tuple[str, ...]:
    """Every name that `--disable` takes."""
    return tuple(dict.fromkeys([*(name_of(rewrite) for rewrite in CANONICALIZE), *FUSIONS]))


def name_of(rewrite: Pass) -> str:
    return getattr(rewrite, "__name__", str(rewrite))


def check_pass_names(names: Iterable[str]) -> frozenset[str]:
    """The names as a set. Raises UsageError naming the nearest pass for one that does not exist."""
    known = pass_names()
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise UsageError("there is no such pass", what=f"--disable {name}",
                             hint=f"{hint}passes are {', '.join(known)}")
    return frozenset(names)


def canonicalize(graph: Graph, disabled: frozenset[str] = frozenset(), observer: Observer | None = None) -> Graph:
    """Run CANONICALIZE, but for `disabled`, round after round until nothing changes (at most MAX_ROUNDS).

    META_INFER_VERIFY checks every rewrite and META_INFER_DUMP writes it; see check_rewrite.py and dump.py.
    """
    check_pass_names(disabled)
    switches = read_switches()
    if switches.dump is not None:
        dump_graph(switches.dump, "import", graph)
    for _ in range(MAX_ROUNDS):
        start = graph
        for rewrite in CANONICALIZE:
            name = name_of(rewrite)
            if name in disabled:
                continue
            before, graph = graph, rewrite(graph)
            if graph is before:
                continue
            check_rewrite(name, before, graph, switches.verify)
            if switches.dump is not None:
                dump_graph(switches.dump, name, graph)
            if observer is not None:
                observer(name, before, graph)
        if graph is start:
            break
    return graph

"""TreeEnsemble, TreeEnsembleRegressor and TreeEnsembleClassifier of ai.onnx.ml.

    leaf = TreeWalk(x, ...)              [rows, trees]
    votes = Gather(weights, leaf)        [rows, trees, targets]: what every leaf gives to every target
    y = transform(fold of votes over trees + base values)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from meta_infer.ir.graph import Node
from meta_infer.ops.importing import attr_int, attr_text, shape_of, unsupported, wanted
from meta_infer.ops.node_builder import NodeBuilder
from meta_infer.ops.opdef import ImportContext, OnnxImport, OnnxNode, ShapeError
from meta_infer.ops.score_transform import TRANSFORMS, transformed
from meta_infer.ops.tree_walk import MEMBER, MODES
from meta_infer.support.dtypes import FLOAT32, INT64, DType

ML = "ai.onnx.ml"
_FOLDS = ("AVERAGE", "SUM", "MIN", "MAX")
_CYCLE = "export the model again: following its children must end at leaves"


@dataclass(frozen=True)
class _Forest:
    """Tables of the inner nodes (see ops/tree_walk.py), and what each leaf gives to each target (NaN: nothing)."""

    tables: Mapping[str, np.ndarray]
    members: np.ndarray
    ends: np.ndarray
    roots: np.ndarray
    votes: np.ndarray


def _numbers(node: OnnxNode, name: str, dtype: type = np.int64) -> np.ndarray:
    """A list attribute, its `_as_tensor` twin, or nothing."""
    for key in (name, f"{name}_as_tensor"):
        if key in node.tensors:
            return np.asarray(node.tensors[key]).reshape(-1).astype(dtype)
        found = node.attrs.get(key)
        if isinstance(found, tuple):
            return np.array(found, dtype)
    return np.zeros(0, dtype)


def _depth(node: OnnxNode, true: np.ndarray, false: np.ndarray, roots: np.ndarray) -> int:
    """Levels of the deepest tree. Raises UnsupportedError when a tree contains itself."""
    level, depth = np.unique(roots[roots >= 0]), 0
    while level.size:
        depth += 1
        if depth > len(true):
            raise unsupported(node, "a tree contains itself", _CYCLE)
        below = np.unique(np.concatenate([true[level], false[level]]))
        level = below[below >= 0]
    return depth


def _leaves(build: NodeBuilder, node: OnnxNode, ctx: ImportContext, forest: _Forest, x: str, dtype: DType) -> str:
    features, tables = shape_of(node, ctx)[-1], forest.tables
    used = int(tables["feature"].max(initial=-1))
    if isinstance(features, int) and used >= features:
        raise ShapeError(f"feature {used} is used, there are {features}")
    true, false = tables["true"], tables["false"]
    names = [build.constant(array, hint) for hint, array in (
        ("feature", tables["feature"]), ("split", tables["split"].astype(dtype.numpy)), ("mode", tables["mode"]),
        ("true", true), ("false", false), ("missing", tables["missing"]),
        ("members", forest.members.astype(dtype.numpy)), ("ends", forest.ends), ("roots", forest.roots))]
    return build.emit("TreeWalk", x, *names, depth=_depth(node, true, false, forest.roots),
                      members=bool((tables["mode"] == MEMBER).any()))


def _folded(build: NodeBuilder, leaves: str, forest: _Forest, how: str, dtype: DType) -> str:
    """Votes over trees, [rows, targets]; a target that nothing votes for gets 0."""
    empty = {"MIN": np.inf, "MAX": -np.inf}.get(how, 0.0)
    table = np.where(np.isnan(forest.votes), empty, forest.votes).astype(dtype.numpy)
    votes = build.emit("Gather", build.constant(table, "votes"), leaves, axis=0)
    fold = {"MIN": "ReduceMin", "MAX": "ReduceMax"}.get(how, "ReduceSum")
    total = build.emit(fold, votes, axes=(1,), keepdims=False)
    if how == "AVERAGE":
        return build.emit("Div", total, build.scalar(max(len(forest.roots), 1), dtype, "trees"))
    if not empty:
        return total
    nothing = build.emit("Equal", total, build.scalar(empty, dtype, "nothing"))
    return build.emit("Where", nothing, build.scalar(0, dtype, "zero"), total)


def _matrix(build: NodeBuilder, node: OnnxNode, ctx: ImportContext) -> tuple[str, DType]:
    """Input 0 as rows of features; integers become float32."""
    x, shape, dtype = node.inputs[0], shape_of(node, ctx), ctx.type_of(node.inputs[0]).dtype
    if len(shape) == 1:
        x = build.reshape(x, (1, shape[0]))
    elif len(shape) != 2:
        raise ShapeError(f"takes rows of features, not {len(shape)} dimensions")
    return (x, dtype) if dtype.is_float else (build.cast(x, FLOAT32), FLOAT32)


# --- version 5: nodes and leaves in lists of their own --------------------------------------------------------

def _new_forest(node: OnnxNode) -> _Forest:
    weights, targets = node.tensors["leaf_weights"].reshape(-1), _numbers(node, "leaf_targetids")
    mode = _numbers(node, "nodes_modes")
    votes = np.full((len(weights), attr_int(node, "n_targets")), np.nan)
    votes[np.arange(len(weights)), targets] = weights
    members, sizes = _member_sets(node, mode)

    def child(side: str) -> np.ndarray:
        ids, leafs = _numbers(node, f"nodes_{side}nodeids"), _numbers(node, f"nodes_{side}leafs")
        return np.where(leafs == 1, -1 - ids, ids)

    missing = _numbers(node, "nodes_missing_value_tracks_true")
    tables = {"feature": _numbers(node, "nodes_featureids"), "split": node.tensors["nodes_splits"].reshape(-1),
              "mode": mode, "true": child("true"), "false": child("false"),
              "missing": missing if len(missing) else np.zeros_like(mode)}
    return _Forest(tables, members, np.concatenate([[0], np.cumsum(sizes)]), _numbers(node, "tree_roots"), votes)


def _member_sets(node: OnnxNode, mode: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All members in a row, and how many each node has: sets stand in the order of their nodes, each ended by NaN."""
    values = node.tensors.get("membership_values", np.zeros(0)).reshape(-1)
    stops = np.flatnonzero(np.isnan(values))
    sets = [part[~np.isnan(part)] for part in np.split(values, stops + 1)]
    sizes = np.zeros(len(mode), np.int64)
    for i, part in zip(np.flatnonzero(mode == MEMBER), sets, strict=False):
        sizes[i] = len(part)
    return values[~np.isnan(values)], sizes


def _import_ensemble(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    build, forest = NodeBuilder.importing(node, ctx), _new_forest(node)
    x, dtype = _matrix(build, node, ctx)
    how, after = attr_int(node, "aggregate_function", 1), attr_int(node, "post_transform")
    scores = _folded(build, _leaves(build, node, ctx, forest, x, dtype), forest, _FOLDS[how], dtype)
    build.finish(transformed(build, scores, TRANSFORMS[after], dtype), node.outputs[0])
    return build.nodes


# --- versions 1 and 3: leaves are nodes, and name their targets elsewhere --------------------------------------

def _old_forest(node: OnnxNode, prefix: str, targets: int) -> _Forest:
    """`prefix` is that of the votes' attributes: target or class."""
    keys = list(zip(_numbers(node, "nodes_treeids").tolist(), _numbers(node, "nodes_nodeids").tolist(), strict=True))
    modes = node.attrs.get("nodes_modes")
    assert isinstance(modes, tuple)
    is_leaf = np.array([mode == "LEAF" for mode in modes], np.bool_)
    leaf, rest = np.cumsum(is_leaf, dtype=np.int64), np.cumsum(np.logical_not(is_leaf), dtype=np.int64)
    place = np.where(is_leaf, -1 * leaf, rest - 1)                                 # leaf i is -1 - i
    at = dict(zip(keys, place.tolist(), strict=True))
    inner = np.flatnonzero(np.logical_not(is_leaf))

    def child(side: str) -> np.ndarray:
        ids = _numbers(node, f"nodes_{side}nodeids")
        return np.array([at[keys[i][0], int(ids[i])] for i in inner], np.int64)

    true, false, missing = child("true"), child("false"), _numbers(node, "nodes_missing_value_tracks_true")
    below = {*true.tolist(), *false.tolist()}
    votes = np.full((int(is_leaf.sum()), targets), np.nan)
    named = zip(_numbers(node, f"{prefix}_treeids").tolist(), _numbers(node, f"{prefix}_nodeids").tolist(), strict=True)
    for key, target, weight in zip(named, _numbers(node, f"{prefix}_ids"),
                                   _numbers(node, f"{prefix}_weights", np.float64), strict=True):
        where = (-1 - at[key], target)
        votes[where] = np.nansum([votes[where], weight])
    tables = {"feature": _numbers(node, "nodes_featureids")[inner],
              "split": _numbers(node, "nodes_values", np.float64)[inner],
              "mode": np.array([_mode(node, modes[i]) for i in inner], np.int64), "true": true, "false": false,
              "missing": missing[inner] if len(missing) else np.zeros(len(inner), np.int64)}
    rooted = {key[0]: p for key, p in zip(keys, place.tolist(), strict=True) if p not in below}
    if len(rooted) < len({tree for tree, _ in keys}):
        raise unsupported(node, "a tree has no root: each of its nodes lies below another", _CYCLE)
    roots = np.array([p for p in place.tolist() if p not in below], np.int64)
    return _Forest(tables, np.zeros(0), np.zeros(len(inner) + 1, np.int64), roots, votes)


def _mode(node: OnnxNode, name: object) -> int:
    if name not in MODES[:MEMBER]:
        raise unsupported(node, f"node mode {name!r} is not known",
                          f"the specification knows {', '.join(MODES[:MEMBER])} and LEAF")
    return MODES.index(str(name))


def _with_base(build: NodeBuilder, node: OnnxNode, scores: str, dtype: DType) -> str:
    base = _numbers(node, "base_values", np.float64)
    return build.emit("Add", scores, build.constant(base.astype(dtype.numpy), "base")) if len(base) else scores


def _import_regressor(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    build, forest = NodeBuilder.importing(node, ctx), _old_forest(node, "target", attr_int(node, "n_targets", 1))
    x, dtype = _matrix(build, node, ctx)
    how = attr_text(node, "aggregate_function", "SUM")
    scores = _folded(build, _leaves(build, node, ctx, forest, x, dtype), forest, how, dtype)
    after = transformed(build, _with_base(build, node, scores, dtype), attr_text(node, "post_transform", "NONE"), dtype)
    build.cast(after, FLOAT32, out=node.outputs[0])
    return build.nodes


def _import_classifier(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """Labels and scores; the best score tells the label.

    Of two classes only one may get votes. Then that one's score decides, against 1/2 when no vote is negative and
    against 0 otherwise; and votes for the first class alone are, as ONNX Runtime reads them, scores of the second.
    """
    labels, weights = _numbers(node, "classlabels_int64s"), _numbers(node, "class_weights", np.float64)
    if not len(labels):
        raise unsupported(node, "labels that are strings are not supported", "number the classes (classlabels_int64s)")
    voted = np.unique(_numbers(node, "class_ids"))
    lone = len(labels) == 2 and len(voted) == 1
    single = lone and voted[0] == 0 and len(_numbers(node, "base_values", np.float64)) < 2
    build, forest = NodeBuilder.importing(node, ctx), _old_forest(node, "class", len(labels))
    x, dtype = _matrix(build, node, ctx)
    if single:
        forest = replace(forest, votes=forest.votes[:, :1])
    leaves = _leaves(build, node, ctx, forest, x, dtype)
    scores = _with_base(build, node, _folded(build, leaves, forest, "SUM", dtype), dtype)
    after = attr_text(node, "post_transform", "NONE")
    if lone:
        limit = build.scalar(0.5 if (weights >= 0).all() else 0.0, dtype, "limit")
        above = build.cast(build.emit("Greater", scores, limit), INT64)
        chosen = build.emit("Gather", above, build.constant(np.array(0 if single else int(voted[0])), "column"), axis=1)
    else:
        chosen = build.emit("ArgMax", scores, axis=1, keepdims=False, select_last_index=False)
    if wanted(node, 0):
        build.emit("Gather", build.constant(labels, "labels"), chosen, axis=0, out=node.outputs[0])
    if wanted(node, 1):
        final = (_of_two(build, scores, bool((weights >= 0).all()), after, dtype) if single
                 else transformed(build, scores, after, dtype))
        build.cast(final, FLOAT32, out=node.outputs[1])
    return build.nodes


def _of_two(build: NodeBuilder, score: str, positive: bool, after: str, dtype: DType) -> str:
    """Scores of both classes from that of the second: a probability when all votes are positive."""
    opposite = build.emit("Neg", score)
    if after == "LOGISTIC":
        return build.emit("Sigmoid", build.emit("Concat", opposite, score, axis=1))
    first = build.emit("Add", opposite, build.scalar(1, dtype, "one")) if positive else opposite
    return build.emit("Concat", first, score, axis=1)


IMPORTS: tuple[OnnxImport, ...] = (
    OnnxImport("TreeEnsemble", 5, convert=_import_ensemble, domain=ML),
    OnnxImport("TreeEnsembleRegressor", 1, convert=_import_regressor, domain=ML),
    OnnxImport("TreeEnsembleClassifier", 1, convert=_import_classifier, domain=ML))

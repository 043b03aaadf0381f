"""How passes change a graph: a rule looks at one node of an `Edit` and replaces it together with its neighbours.

    def remove_double_neg(edit: Edit, node: Node) -> bool:
        inner = edit.made_by(node.inputs[0], "Neg") if node.op == "Neg" else None
        return inner is not None and edit.bypass(node, inner.inputs[0])

    graph = apply_rule(graph, remove_double_neg)

An `Edit` is one graph of the region tree while it is being changed. It answers who makes and who reads a value
(reads by regions and by the graph's outputs count), and it keeps names unique over the whole tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from heapq import heapify, heappop, heappush
from typing import cast

import numpy as np

from meta_infer.ir.graph import Attr, Graph, Node, Shape, Value, attr_symbols, free_names, walk_graphs
from meta_infer.ir.shapes import Expr, substitute
from meta_infer.ops.infer import constant_type, counted_symbols, infer_node
from meta_infer.ops.opdef import TensorType
from meta_infer.support.dtypes import DType, dtype_of
from meta_infer.support.errors import InternalError

_MAX_SWEEPS = 1000


class Edit:
    """A mutable, indexed view of one graph; `finish` gives the graph back."""

    def __init__(self, graph: Graph, used: set[str], outer: Edit | None = None) -> None:
        self.outputs = graph.outputs
        self.changed = False
        self._graph, self._used, self._outer = graph, used, outer
        self._values, self._constants = dict(graph.values), dict(graph.constants)
        self._nodes: dict[str, Node] = {}                    # by the node's key: its first present output
        self._place: dict[str, tuple[int, int]] = {}         # where a node stood, new ones in the place of the old
        self._maker: dict[str, str] = {}
        self._users: dict[str, dict[str, None]] = {}
        self._at = self._added = 0
        self._renamed: dict[str, str] = {}                   # values that tell sizes while running: old name, new name
        for i, node in enumerate(graph.nodes):
            self._insert(node, (i, 0))

    # --- questions ----------------------------------------------------------------------------------------

    def nodes(self) -> list[Node]:
        """All nodes, in an order near the topological one; exactly it as long as nothing has changed."""
        return sorted(self._nodes.values(), key=lambda node: self._place[key_of(node)])

    def has(self, node: Node) -> bool:
        return self._nodes.get(key_of(node)) is node

    def value(self, name: str) -> Value:
        """Type of a value of this graph or of one around it."""
        if name in self._values or self._outer is None:
            return self._values[name]
        return self._outer.value(name)

    def constant(self, name: str) -> np.ndarray | None:
        """Contents of `name` when known, also when it belongs to a graph around this one."""
        if name in self._constants or self._outer is None:
            return self._constants.get(name)
        return self._outer.constant(name)

    def uniform(self, name: str) -> float | None:
        """The one number that all elements of constant `name` are, if so."""
        array = self.constant(name)
        if array is None or array.size == 0 or array.dtype.kind not in "fiu":
            return None
        first = array.reshape(-1)[0]
        return float(first) if bool((array == first).all()) else None

    def made_by(self, name: str, *ops: str) -> Node | None:
        """The node of this graph that makes `name`, if its op is one of `ops` (any op when none is given)."""
        node = self._nodes.get(self._maker.get(name, ""))
        return node if node is not None and (not ops or node.op in ops) else None

    def users(self, name: str) -> list[Node]:
        """Nodes of this graph that read `name`, captures of their regions included."""
        return [self._nodes[key] for key in self._users.get(name, {})]

    def only_user(self, name: str) -> Node | None:
        """The one node that reads `name`; None when there are more or it is an output of the graph."""
        users = self.users(name)
        return users[0] if len(users) == 1 and name not in self.outputs else None

    def is_closed(self, nodes: Iterable[Node], root: Node) -> bool:
        """Whether only `nodes` read what they make, but for the results of `root`: the condition of a fusion."""
        keys = {key_of(node) for node in nodes} | {key_of(root)}
        for key in keys - {key_of(root)}:
            for name in filter(None, self._nodes[key].outputs):
                if name in self.outputs or not keys.issuperset(self._users.get(name, {})):
                    return False
        return True

    # --- changes ------------------------------------------------------------------------------------------

    def fresh(self, hint: str) -> str:
        """A name that nothing in the region tree has."""
        name, count = hint, 0
        while name in self._used:
            count += 1
            name = f"{hint}_{count}"
        self._used.add(name)
        return name

    def add_constant(self, array: np.ndarray, hint: str) -> str:
        name = self.fresh(hint)
        self._constants[name] = array
        self._values[name] = Value(name, dtype_of(array), array.shape)
        self.changed = True
        return name

    def remove(self, nodes: Iterable[Node]) -> None:
        """Take nodes out. What they made must be made again, or have no reader left, by the end of the rule."""
        for node in nodes:
            key = key_of(node)
            del self._nodes[key]
            for name in node.reads:
                self._users[name].pop(key, None)
            for name in filter(None, node.outputs):
                del self._maker[name]
        self.changed = True

    def emit(self, op: str, inputs: tuple[str, ...], attrs: Mapping[str, Attr] | None = None, *,
             origins: Iterable[Node] = (), output: str = "", hint: str = "") -> str:
        """Add a one-output node where the current one stands, and give its output's name.

        `origins` are the nodes it stands for. `output` names an existing value, whose type and provenance stay;
        otherwise a new value without origin is made, of the type the op infers.
        """
        labels = tuple(dict.fromkeys(o for node in origins for o in node.origins))
        node = Node(op, inputs, (output or self.fresh(hint or op.lower()),), dict(attrs or {}), labels)
        self.insert(node)
        return node.outputs[0]

    def insert(self, node: Node) -> None:
        """Add a node where the current one stands; outputs without a type yet get the one the op infers."""
        if any(name and name not in self._values for name in node.outputs):
            found = self.infer(node)
            for name, known in zip(node.outputs, found, strict=False):
                if name and name not in self._values:
                    self._values[name] = Value(name, known.dtype, known.shape)
                    self._used.add(name)
        self._added += 1
        self._insert(node, (self._at, self._added))
        self.changed = True

    def declare(self, name: str, dtype: DType, shape: Shape) -> None:
        """The type of a value about to be made, where another node is to make it: sizes found while running stay."""
        self._values[name] = Value(name, dtype, shape)
        self._used.add(name)

    def adopt(self, region: Graph) -> None:
        """Make everything that `region`, a body without inputs, defines part of this graph."""
        self._values.update(region.values)
        self._constants.update(region.constants)
        for node in region.nodes:
            self.insert(node)

    def infer(self, node: Node) -> tuple[TensorType, ...]:
        """Output types of a node from the types of what it reads."""
        types, known = {}, {}
        for name in node.reads:
            array, value = self.constant(name), self.value(name)
            types[name] = TensorType(value.dtype, value.shape)
            if array is not None:
                types[name], known[name] = constant_type(array), array
        return infer_node(node, types, known, counted_symbols())

    def swap(self, old: Node, new: Node) -> None:
        """Put `new`, which makes the same values, in the place of `old`."""
        place = self._place[key_of(old)]
        self.remove([old])
        self._insert(new, place)

    def bypass(self, node: Node, name: str) -> bool:
        """Remove a one-output node whose result equals value `name`, of the same type, and let all read that.

        An output of the graph keeps its name: the other value takes it over, or, when that is an input, a
        constant, an output or comes from an outer graph, nothing happens. Gives whether the node is gone.
        """
        old = node.outputs[0]
        if not same_type(self.value(old), self.value(name)) or not self.can_redirect(old, name):
            return False
        self.remove([node])
        self.redirect(old, name)
        return True

    def can_redirect(self, old: str, new: str) -> bool:
        return old not in self.outputs or (new in self._maker and new not in self.outputs)

    def redirect(self, old: str, new: str) -> None:
        """All readers of `old`, which no node makes any more, read `new`; see `bypass`."""
        if old in self.outputs:
            maker = self._nodes[self._maker[new]]
            self.swap(maker, replace(maker, outputs=tuple(old if o == new else o for o in maker.outputs)))
            old, new = new, old
        if new in self._values and self._values[new].origin is None:
            self._values[new] = replace(self._values[new], origin=self.value(old).origin)
        for user in self.users(old):
            self.swap(user, rename_reads(user, {old: new}))
        self._renamed[old] = new
        self.changed = True

    def own_constants(self) -> dict[str, np.ndarray]:
        """The constants of this graph itself, as they are now."""
        return dict(self._constants)

    def unread_constants(self) -> list[str]:
        """Constants of this graph that neither a node nor its outputs read."""
        return [name for name in self._constants if not self._users.get(name) and name not in self.outputs]

    def drop_constants(self, names: Iterable[str]) -> None:
        for name in names:
            del self._constants[name]
            self.changed = True

    def define(self, name: str, array: np.ndarray) -> None:
        """Value `name`, which no node makes any more, is this constant from now on."""
        self._constants[name] = array
        self.changed = True

    def visit(self, node: Node) -> None:
        """Nodes added from now on stand where `node` stands."""
        self._at = self._place[key_of(node)][0]

    # --- result -------------------------------------------------------------------------------------------

    def finish(self) -> Graph:
        """The graph as it is now, in topological order, without unread constants; itself if unchanged."""
        if not self.changed:
            return self._graph
        nodes = self._sorted()
        read = {name for node in nodes for name in node.reads} | set(self.outputs)
        constants = {name: array for name, array in self._constants.items() if name in read}
        made = {name for node in nodes for name in node.outputs if name}
        kept = made | set(constants) | set(self._graph.inputs)
        values = {name: _with_makers(value, self._renamed) for name, value in self._values.items() if name in kept}
        result = self._graph.replace(nodes=nodes, values=values, constants=constants, outputs=self.outputs)
        return result.replace(captures=free_names(result)) if self._outer is not None else result

    def _sorted(self) -> tuple[Node, ...]:
        """Topological order that stays as near to the places of the nodes as it can."""
        waits = {key: {self._maker[name] for name in node.reads if name in self._maker}
                 for key, node in self._nodes.items()}
        ready = [(self._place[key], key) for key, needed in waits.items() if not needed]
        heapify(ready)
        order = []
        while ready:
            _, key = heappop(ready)
            node = self._nodes[key]
            order.append(node)
            for user in {user for name in node.outputs for user in self._users.get(name, {})}:
                waits[user].discard(key)
                if not waits[user]:
                    heappush(ready, (self._place[user], user))
        if len(order) != len(self._nodes):
            raise InternalError("a rewrite made a cycle", what=f"graph {self._graph.name!r}")
        return tuple(order)

    def _insert(self, node: Node, place: tuple[int, int]) -> None:
        key = key_of(node)
        self._nodes[key], self._place[key] = node, place
        for name in node.reads:
            self._users.setdefault(name, {})[key] = None
        for name in filter(None, node.outputs):
            self._maker[name] = key


Rule = Callable[[Edit, Node], bool]
"""Looks at one node, changes the edit or not, and gives whether it did."""


def apply_rule(graph: Graph, rule: Rule) -> Graph:
    """Offer every node of the region tree to `rule`, again and again until it changes nothing."""
    return edit_graphs(graph, lambda edit: _sweep(edit, rule))


def edit_graphs(graph: Graph, change: Callable[[Edit], None]) -> Graph:
    """Let `change` edit every graph of the region tree, inner ones first."""
    used = {name for holder in walk_graphs(graph) for name in holder.values}
    return _edit(Edit(graph, used), used, change)


def _edit(edit: Edit, used: set[str], change: Callable[[Edit], None]) -> Graph:
    for node in edit.nodes():
        if not node.regions:
            continue
        regions = tuple(_edit(Edit(region, used, edit), used, change) for region in node.regions)
        if any(new is not old for new, old in zip(regions, node.regions, strict=True)):
            edit.swap(node, replace(node, regions=regions))
    change(edit)
    return edit.finish()


def _sweep(edit: Edit, rule: Rule) -> None:
    for _ in range(_MAX_SWEEPS):
        progress = False
        for node in edit.nodes():
            if edit.has(node):
                edit.visit(node)
                progress |= rule(edit, node)
        if not progress:
            return
    raise InternalError(f"the rule {getattr(rule, '__name__', rule)!r} never comes to rest")


def key_of(node: Node) -> str:
    """The first output that is present: what identifies a node within its graph."""
    return next(name for name in node.outputs if name)


def same_type(a: Value, b: Value) -> bool:
    """Equal dtype, shape and quantisation."""
    return (a.dtype, a.shape, a.quant) == (b.dtype, b.shape, b.quant)


def rename_reads(node: Node, names: Mapping[str, str]) -> Node:
    """`node` reading other values, its regions included."""
    regions = tuple(_rename_region(region, names) for region in node.regions)
    attrs = {key: _rename_makers(attr, names) for key, attr in node.attrs.items()}
    return replace(node, inputs=tuple(names.get(i, i) for i in node.inputs), attrs=attrs, regions=regions)


def _rename_region(region: Graph, names: Mapping[str, str]) -> Graph:
    if not any(name in names for name in region.captures):
        return region
    nodes = tuple(rename_reads(node, names) for node in region.nodes)
    outputs = tuple(names.get(o, o) for o in region.outputs)
    values = {name: _with_makers(value, names) for name, value in region.values.items()}
    renamed = region.replace(nodes=nodes, outputs=outputs, values=values)
    return renamed.replace(captures=free_names(renamed))


def _with_makers(value: Value, names: Mapping[str, str]) -> Value:
    """`value` whose symbols become known by other values."""
    if not names or value.is_static:
        return value
    return replace(value, shape=cast(Shape, _rename_makers(value.shape, names)))


def _rename_makers(attr: Attr, names: Mapping[str, str]) -> Attr:
    """`attr`, in whose dimensions the symbols of value `old` become those of value `names[old]`."""
    if isinstance(attr, tuple):
        return tuple(_rename_makers(item, names) for item in attr)
    moved = {s.name: replace(s, maker=names[s.maker]).dim for s in attr_symbols(attr) if s.maker in names}
    return substitute(attr, moved) if moved and isinstance(attr, Expr) else attr

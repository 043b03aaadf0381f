"""Checks one ONNX node against the schema of the opset its model declares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from onnx import AttributeProto, NodeProto, defs

from meta_infer.frontend.attributes import attribute_type
from meta_infer.frontend.schemas import first_opset, schema_for, suggestion
from meta_infer.ops.registry import ops_importing
from meta_infer.support.errors import MetaInferError, ModelError, UnsupportedError

_OPTIONAL = defs.OpSchema.FormalParameterOption.Optional
_VARIADIC = defs.OpSchema.FormalParameterOption.Variadic
_AGAIN = "export the model again, or correct the node"


def domain_of(node: NodeProto) -> str:
    """The node's operator domain, '' for ONNX's own."""
    return "" if node.domain == "ai.onnx" else node.domain


def find_node_problems(node: NodeProto, opsets: Mapping[str, int], what: str) -> Iterator[MetaInferError]:
    """Everything that is wrong with one node, apart from its place in the graph; `what` names it."""
    domain = domain_of(node)
    if not node.op_type:
        yield ModelError("has no op type", what=what, hint=_AGAIN)
        return
    if domain not in opsets:
        yield ModelError(f"uses the operator domain {domain or 'ai.onnx'!r}, which opset_import does not list",
                         what=what, hint="add the domain to the model's opset_import")
        return
    schema = schema_for(domain, node.op_type, opsets[domain])
    if schema is None or schema.deprecated:
        yield from _unknown_op(node, domain, opsets[domain], schema, what)
        return
    if ops_importing(node.op_type, schema.since_version, domain) is None:
        yield UnsupportedError(f"op {node.op_type!r} (version {schema.since_version}) is not supported",
                               what=what, hint=suggestion(node.op_type))
    yield from _attribute_problems(node, schema, what)
    yield from _operand_problems(node, schema, what)


def _unknown_op(node: NodeProto, domain: str, opset: int, schema: defs.OpSchema | None,
                what: str) -> Iterator[MetaInferError]:
    op, first = node.op_type, first_opset(domain, node.op_type)
    where = f"opset {opset}" + (f" of {domain!r}" if domain else "")
    if schema is None and ops_importing(op, opset, domain) is not None:
        return                                           # another vendor's op that an op file knows
    if schema is not None:
        yield ModelError(f"op {op!r} was removed in opset {schema.since_version}, the model declares {where}",
                         what=what, hint="declare the opset the model was written for, or export it again")
    elif first is not None:
        yield ModelError(f"op {op!r} exists only since opset {first}, the model declares {where}", what=what,
                         hint=f"convert the model: onnx.version_converter.convert_version(model, {first})")
    elif domain:
        yield UnsupportedError(f"op {op!r} of the operator domain {domain!r} is not supported", what=what,
                               hint=suggestion(op, domain))
    else:
        yield UnsupportedError(f"op {op!r} is not an ONNX op of {where}", what=what, hint=suggestion(op))


def _attribute_problems(node: NodeProto, schema: defs.OpSchema, what: str) -> Iterator[MetaInferError]:
    seen: set[str] = set()
    for attribute in node.attribute:
        name = attribute.name
        if name.startswith("_"):
            continue                                     # ONNX lets tools keep notes under such names
        if name in seen:
            yield ModelError(f"attribute {name!r} stands twice", what=what, hint=_AGAIN)
            continue
        seen.add(name)
        if name not in schema.attributes:
            known = ", ".join(sorted(schema.attributes)) or "none"
            yield ModelError(f"attribute {name!r} is unknown to version {schema.since_version} of "
                             f"{node.op_type}", what=what, hint=f"its attributes are: {known}")
            continue
        wanted, found = _kind(schema.attributes[name]), attribute_type(attribute)
        if attribute.ref_attr_name:
            yield ModelError(f"attribute {name!r} refers to {attribute.ref_attr_name!r} outside of a function",
                             what=what, hint=_AGAIN)
        elif found != wanted and not _is_empty_list(attribute, wanted):
            yield ModelError(f"attribute {name!r} is of type {_type(found)}, it must be {_type(wanted)}",
                             what=what, hint=f"write {name!r} as {_type(wanted)}")
    for name, formal in schema.attributes.items():
        if formal.required and name not in seen:
            yield ModelError(f"the required attribute {name!r} is missing", what=what,
                             hint=f"set {name!r} ({_type(_kind(formal))}) on the node")


def _is_empty_list(attribute: AttributeProto, wanted: int) -> bool:
    """An empty list of IR version 1, whose type cannot be told."""
    lists = (AttributeProto.FLOATS, AttributeProto.INTS, AttributeProto.STRINGS)
    return attribute_type(attribute) == AttributeProto.UNDEFINED and wanted in lists


def _kind(formal: defs.OpSchema.Attribute) -> int:
    """The attribute type of a schema, in the numbers of AttributeProto."""
    return int(formal.type.value)  # type: ignore[attr-defined]


def _type(kind: int) -> str:
    known = kind in AttributeProto.AttributeType.values()
    return AttributeProto.AttributeType.Name(kind).lower() if known else f"unknown ({kind})"


def _operand_problems(node: NodeProto, schema: defs.OpSchema, what: str) -> Iterator[MetaInferError]:
    for kind, names, formals, least, most in (
        ("input", node.input, schema.inputs, schema.min_input, schema.max_input),
        ("output", node.output, schema.outputs, schema.min_output, schema.max_output),
    ):
        if len(names) < least:
            missing = formals[len(names)].name if len(names) < len(formals) else ""
            yield ModelError(f"has {len(names)} {kind}s, {node.op_type} needs at least {least}", what=what,
                             hint=f"connect {kind} {missing!r}" if missing else _AGAIN)
        elif len(names) > most:
            yield ModelError(f"has {len(names)} {kind}s, version {schema.since_version} of {node.op_type} "
                             f"takes at most {most}", what=what, hint=_AGAIN)
        for i, name in enumerate(names):
            formal = formals[min(i, len(formals) - 1)] if formals else None
            if kind == "input" and not name and formal is not None and formal.option != _OPTIONAL:
                yield ModelError(f"the required input {i} ({formal.name!r}) is missing", what=what,
                                 hint=f"connect input {formal.name!r}")
    if node.output and not any(node.output):
        yield ModelError("has no output", what=what, hint="remove the node")


def check_dtypes(schema: defs.OpSchema, dtypes: Sequence[str], what: str) -> None:
    """Check the inputs' element types ('float32', '' = absent) against the schema's type constraints.

    Raises ModelError when inputs that must agree differ, or a type is not allowed for the op.
    """
    allowed = {c.type_param_str: set(c.allowed_type_strs) for c in schema.type_constraints}
    bound: dict[str, tuple[int, str]] = {}
    for i, dtype in enumerate(dtypes):
        if not schema.inputs or not dtype:
            continue
        formal = schema.inputs[min(i, len(schema.inputs) - 1)]
        text = f"tensor({ {'float32': 'float', 'float64': 'double'}.get(dtype, dtype) })"
        kinds = allowed.get(formal.type_str, {formal.type_str})
        if text not in kinds:
            raise ModelError(f"input {i} ({formal.name!r}) is {dtype}, which version {schema.since_version} of "
                             f"{schema.name} does not take", what=what, hint="insert a Cast before the node")
        if formal.type_str not in allowed or (formal.option == _VARIADIC and not formal.is_homogeneous):
            continue
        first, other = bound.setdefault(formal.type_str, (i, dtype))
        if other != dtype:
            raise ModelError(f"input {i} is {dtype} but input {first} is {other}; they must agree", what=what,
                             hint="insert a Cast before the node")

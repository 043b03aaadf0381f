"""Messages of the sources that no model can meet: (file, a part of the message), grouped by the reason.

They stand in inference rules, which passes run again on nodes that they made or changed: there they guard the compiler.
"""

from __future__ import annotations

_CHECKED_BEFORE = (
    # check_model and check_dtypes hold every node against its schema before it is imported.
    ("frontend/import_graph.py", " (version "),
    ("ops/comparison.py", "takes a bool condition and two operands of one dtype"),
    ("ops/conditional.py", "needs a then_branch and an else_branch"),
    ("ops/elementwise.py", "operands have different dtypes"),
    ("ops/elementwise.py", "does not take "),
    ("ops/gather.py", "indices must be int32 or int64"),
    ("ops/integer_product.py", "takes int8 and uint8"),
    ("ops/loop.py", "needs a body"),
    ("ops/matmul.py", "operands have different dtypes"),
    ("ops/non_max_suppression.py", "boxes and scores must be float32"),
    ("ops/opdef.py", " is required"),
    ("ops/scatter.py", "indices must be int32 or int64"),
    ("ops/scatter.py", "do not fit data of "),
    ("ops/scatter.py", "does not fit a cache of "),
    ("ops/softmax.py", "takes floats, not "),
)
_IMPORTERS_GIVE_WHAT_FITS = (
    # Importers resolve axes, shapes, pads and seeds, and refuse what does not fit with a message of their own.
    ("ops/assert_shape.py", "has not the rank of"),
    ("ops/dot_product_attention.py", "does not come in the order"),
    ("ops/dot_product_attention.py", "should have four dimensions"),
    ("ops/dot_product_attention.py", " heads, not "),
    ("ops/dot_product_attention.py", " heads of queries are no multiple of "),
    ("ops/dot_product_attention.py", "should be floats of one type"),
    ("ops/dot_product_attention.py", "should be bhsd or bshd"),
    ("ops/expand.py", "does not expand to"),
    ("ops/normalization.py", "is outside the "),
    ("ops/one_hot.py", "is outside the output of indices"),
    ("ops/pad.py", " pads for the "),
    ("ops/pad.py", " is not one of "),
    ("ops/random.py", "is not a number of 32 bits"),
    ("ops/reshape.py", " is undefined"),
    ("ops/resize.py", "cannot be resized to"),
    ("ops/resize_axis.py", "is outside"),
    ("ops/slicing.py", "must have one entry per dimension"),
    ("ops/slicing.py", "leaves a dimension of size"),
    ("ops/softmax.py", "is outside the "),
    ("ops/storage.py", "have different sizes"),
    ("ops/storage.py", "is stored as"),
    ("ops/storage.py", "has no direct way to"),
    ("ops/top_k.py", "cannot be sorted"),
    ("ops/tree_walk.py", "walks rows of a matrix"),
    ("ops/loop.py", ", the body takes "),
)
_IMPORT_BINDS_SIZES = (
    # While a model is imported there are always symbols for sizes that data tells, and what has such a size is
    # compared while running.
    ("frontend/settle_sizes.py", "cannot be compared"),
    ("frontend/settle_sizes.py", "cannot be proven equal"),
    ("ops/conditional.py", "of one branch and "),
    ("ops/importing.py", "is computed at run time, it must be constant"),
    ("ops/importing.py", "depends on data, not only on shapes"),
    ("ops/importing.py", "holds the dynamic size"),
    ("ops/non_max_suppression.py", "how many boxes are picked depends on data"),
    ("ops/non_zero.py", "how many elements are not zero depends on data"),
    ("ops/range.py", "the number of elements depends on data"),
    ("ops/unique.py", "how many elements are distinct depends on data"),
)
_FAULTS_OF_OTHERS = (
    # An importer that names too few outputs; what onnx's own inliner throws.
    ("frontend/import_graph.py", "gives "),
    ("frontend/inline_functions.py", "cannot be inlined: "),
)
UNREACHED = (*_CHECKED_BEFORE, *_IMPORTERS_GIVE_WHAT_FITS, *_IMPORT_BINDS_SIZES, *_FAULTS_OF_OTHERS)

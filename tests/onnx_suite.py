"""Run the operator suite of the onnx wheel on compiled packages.

    python tests/onnx_suite.py [--match 'test_topk*'] [--kind plain] [--resume results.jsonl] [-v]

Prints passed, failed and refused per op, then each case that did not pass with its reason. Exits 1 if any failed that
`ops/gaps.py` does not list.
"""

from __future__ import annotations

import sys

from meta_infer.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["check", "--suite", *sys.argv[1:]]))

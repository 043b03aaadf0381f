"""Cases of vendor ops that are refused: by name, and each a listed gap."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from meta_infer.frontend.import_model import import_model
from meta_infer.ops.gaps import gaps_of
from meta_infer.support.errors import UnsupportedError

from .one_model import NodeCase, model_of

ROWS = np.ones((2, 3, 64), np.float32)
LENGTHS, TOTAL = np.array([2, 2], np.int32), np.array(3, np.int32)
CACHE = np.zeros((2, 2, 3, 16), np.int8)
GROUPS = {"num_heads": 4, "kv_num_heads": 2}
KEYS = np.ones((2, 3, 32), np.float32)
POSITIONS = np.zeros(1, np.int64)
REFUSED = {
    "rotary in Attention": (NodeCase("Attention", [ROWS, np.ones((64, 192), np.float32)],
                                     {"num_heads": 4, "do_rotary": 1}), "do_rotary"),
    "4-D mask": (NodeCase("Attention", [ROWS, np.ones((64, 192), np.float32), None, np.ones((2, 1, 3, 3), np.int32)],
                          {"num_heads": 4}), "a mask of shape"),
    "shared buffer": (NodeCase("MultiHeadAttention", [ROWS, ROWS, ROWS, *(None,) * 5, np.zeros((), np.int32)],
                               {"num_heads": 4}), "past_sequence_length"),
    "quantised cache": (NodeCase("GroupQueryAttention", [ROWS, KEYS, KEYS, CACHE, CACHE, LENGTHS, TOTAL],
                                 {"k_quant_type": "PER_TENSOR", **GROUPS}), "quantised"),
    "sliding cache": (NodeCase("GroupQueryAttention", [ROWS, KEYS, KEYS, None, None, LENGTHS, TOTAL],
                               {"sliding_window_cache": 1, **GROUPS}), "sliding_window_cache"),
    "scores as output": (NodeCase("GroupQueryAttention", [ROWS, KEYS, KEYS, None, None, LENGTHS, TOTAL],
                                  {"qk_output": 1, **GROUPS}, outputs=4), "output_qk"),
    "packed batching": (NodeCase("RotaryEmbedding", [ROWS, POSITIONS, *(np.ones((9, 8), np.float32),) * 2],
                                 {"is_packed_batching": 1}), "is_packed_batching"),
    "prepacked": (NodeCase("MatMulNBits", [ROWS, np.zeros((5, 2, 16), np.uint8), np.ones((5, 2), np.float32)],
                           {"N": 5, "K": 64, "block_size": 32, "weight_prepacked": 1}), "weight_prepacked"),
    "statistics": (NodeCase("SkipLayerNormalization", [ROWS, ROWS, ROWS[0, 0]], outputs=2), "mean or inv_std_var"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, tmp_path: Path) -> None:
    case, reason = REFUSED[name]
    path = tmp_path / "model.onnx"
    onnx.save(model_of([case])[0], path)
    with pytest.raises(UnsupportedError, match=reason) as caught:
        import_model(path)
    assert "node0" in str(caught.value) and "try:" in str(caught.value)
    assert gaps_of(case.op)

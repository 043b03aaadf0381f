"""What a build prints of its aims."""

from __future__ import annotations

from pathlib import Path

from meta_infer.build_config import BuildConfig
from meta_infer.report.aims import aims_lines, aims_rows, missed, outcome_rows
from meta_infer.search.aims import Aims
from meta_infer.search.whole.outcome import Bottleneck, Outcome, Reach


def rows(outcome: Outcome | None, aims: Aims | None = None, **fields: object) -> dict[str, object]:
    config = BuildConfig(model=Path("x.onnx"), **fields)
    return aims_rows(config, aims or Aims(memory_bytes=1 << 30), 5 << 20, outcome_rows(outcome) or None)


def test_nothing_asked_and_nothing_searched_prints_nothing() -> None:
    assert aims_lines(rows(None)) == [] and aims_lines({}) == []
    limited = aims_lines(rows(None, Aims(memory_bytes=8 << 20, memory_is_given=True), memory_limit_mib=8))
    assert limited == ["memory: 5.0 MiB of weights and tensors, of at most 8.0 MiB (--memory-limit)"]


def test_the_label_of_a_search_is_judged() -> None:
    text = "\n".join(aims_lines(rows(Outcome("latency", "searched", 0.003, 5 << 20, None, 0.03, 0.018))))
    assert "latency: 3.00 ms as a whole; the un-optimised baseline takes 30.0 ms, 10.0 times as long" in text
    assert "target latency: 18.0 ms (60% of the un-optimised baseline), met" in text
    late = Outcome("latency", "searched", 0.02, 5 << 20, None, 0.03, 0.018)
    assert "not met" in "\n".join(aims_lines(rows(late))) and missed(rows(late)) is None


def test_what_a_target_left_room_for_and_energy() -> None:
    found = Outcome("latency", "least memory", 0.004, 4 << 20, 0.0021, 0.03, 0.005, True, "memory and energy", 0.003,
                    6 << 20)
    text = "\n".join(aims_lines(rows(found, Aims(joules=0.003, memory_bytes=1 << 30), target_latency_ms=5)))
    assert "(--target-latency-ms), met" in text and "the quickest plan takes 3.00 ms and 6.0 MiB" in text
    assert "energy: 2.1 mJ a run (estimate: model), of at most 3 mJ" in text


def test_a_missed_target_says_what_bounds_it() -> None:
    groups = (Bottleneck("Conv+Relu", "conv1", 3, 0.004, 0.5, 0.002), Bottleneck("MatMul", "fc", 1, 0.001, 0.1, 0.0))
    for least, words in ((0.006, "no kernels reach the target"), (0.004, "would reach it")):
        found = Outcome("latency", "searched", 0.008, 5 << 20, None, 0.03, 0.005, True,
                        reach=Reach(least, 0.2, groups))
        text = missed(rows(found, target_latency_ms=5)) or ""
        assert "8.00 ms is the nearest to the target of 5 ms" in text and words in text
        assert "80% of it bound by memory" in text
        assert "50% in 3 like conv1 (Conv+Relu): 4.00 ms, at least 2.00 ms" in text
        assert "10% in fc (MatMul): 1.00 ms\n" in text and "--threads" in text and "--shape" in text
    unknown = Outcome("latency", "searched", 0.008, 5 << 20, None, 0.03, 0.005, True, reach=Reach(None, 0.0, groups))
    text = missed(rows(unknown, target_latency_ms=5)) or ""
    assert "roofline" not in text and "conv1" in text

"""Profiles by name and path, both forms, and what a user reads when one is wrong."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from meta_infer.hardware.load import catalog_names, load_profile, parse_profile
from meta_infer.hardware.targets import restrict
from meta_infer.support.dtypes import FLOAT32, FLOAT64, INT8
from meta_infer.support.errors import ProfileError

ROOT = Path(__file__).resolve().parents[2]
PROFILES = sorted((ROOT / "profiles").glob("*.yaml"))
ONE_NPU = "name: a\ndevices: [{name: d, kind: npu}]"
DESIGN_EXAMPLE = """
accelerator:
  name: "edge_npu_v2"
  compute_units: 4
  supported_ops: ["conv2d", "depthwise_conv2d", "elementwise_add", "relu", "softmax"]
  data_layouts: ["NHWC", "NCHW"]
  precision: ["fp16", "int8"]
  aligned_channel: 32
  unified_memory: 128        # MiB
  bandwidth_mbps: 20480      # MB/s
  max_workers: 4
"""
FULL = """
name: board
backend: cpu
devices:
  - {name: cpu0, kind: cpu, isa: x86-64-v3, features: [avx_vnni], compute_units: 4, clock_ghz: 2,
     macs_per_cycle: {fp32: 16, int8: 64.5}, instruction_cache: 32 KiB, max_workers: 9}
  - {name: npu0, kind: npu, op_limits: [{op: conv2d, max_kernel: 11, reason: the window is 11 wide}]}
memories:
  - {name: l1d, kind: l1d, size: 32768}
  - {name: dram, kind: main, size: 1.5 GiB, banks: 8, alignment: 64}
links:
  - {from: dram, to: cpu0, bandwidth: 12.8 GB/s, setup: 200 ns, dma_granularity: 64 B, two_d: true}
  - {from: npu0, to: cpu0, bandwidth: 100 GB/s}
sensitive_layers: [softmax]
power: {static_w: 1.5, joules_per_mac: {fp32: 4.6e-12}, joules_per_byte: {dram: 1.6e-10}}
cost:
  - {kernel_class: conv, precision: fp32, alpha: {ports: 1.0e-10}, beta: {dram: 4.0e-11}, gamma: 1.0e-6,
     delta: {chunks: 0}, overlap: 0.75, fitted: 2026-01-31, samples: 200, error: 0.08}
versions: {toolchain: zig 0.17.1}
"""


def problem_of(text: str) -> str:
    with pytest.raises(ProfileError) as caught:
        parse_profile(text, "x.yaml")
    assert "x.yaml" in str(caught.value) and "try: " in str(caught.value)
    return str(caught.value)


def test_the_minimal_form_of_the_design_loads_and_warns() -> None:
    profile = parse_profile(DESIGN_EXAMPLE, "x.yaml")
    assert (profile.name, profile.kind, profile.cores, profile.max_workers) == ("edge_npu_v2", "npu", 4, 4)
    assert profile.memory_bytes == 128 * 2**20 and profile.bandwidth == 20480e6
    assert profile.supports_op("conv2d") and not profile.supports_op("lstm")
    assert profile.data_layouts == ("NHWC", "NCHW") and profile.precisions == ("fp16", "int8")
    assert profile.aligned_channel == 32 and profile.backend is None and profile.simd_bits == 0
    assert profile.lanes(FLOAT32) == 1 and profile.macs_per_second(FLOAT32) is None
    assert profile.source == DESIGN_EXAMPLE
    assert not any("aligned_channel" in warning for warning in profile.warnings)
    assert any("clock_ghz" in warning for warning in profile.warnings)


def test_the_barest_minimal_form_warns_of_alignment_first() -> None:
    profile = parse_profile("accelerator: {name: bare}", "x.yaml")
    assert profile.warnings[0].startswith("aligned_channel")
    assert profile.supported_ops is None and profile.supports_op("anything")
    assert (profile.cores, profile.aligned_channel, profile.memory_bytes) == (1, 1, None)
    for field in ("compute_units", "bandwidth", "main memory", "supported_ops", "precision", "data_layouts"):
        assert any(field in warning for warning in profile.warnings), field


def test_bandwidth_survives_without_a_memory_size() -> None:
    assert parse_profile("accelerator: {name: a, bandwidth_mbps: 100}", "x").bandwidth == 100e6


def test_the_full_form() -> None:
    profile = parse_profile(FULL, "x.yaml")
    assert (profile.isa, profile.simd_bits, profile.has_fma) == ("x86-64-v3-vnni", 256, True)
    assert {"avx2", "avx_vnni", "sse2"} <= profile.features
    assert (profile.lanes(FLOAT32), profile.lanes(FLOAT64), profile.lanes(INT8)) == (8, 4, 32)
    assert profile.macs_per_second(FLOAT32) == 16 * 2e9 * 4
    assert profile.max_workers == 4, "never more workers than compute units"
    assert (profile.l1d_bytes, profile.l2_bytes, profile.memory_bytes) == (32768, None, 3 * 2**29)
    assert profile.bandwidth == 12.8e9, "a link that does not touch main memory does not count"
    assert profile.chip.links[0].setup == pytest.approx(200e-9)
    assert profile.chip.cost[0].fitted.year == 2026
    assert profile.chip.devices[1].op_limits[0].max_kernel == 11


def test_a_profile_is_a_value() -> None:
    first, second = parse_profile(FULL, "x"), parse_profile(FULL, "x")
    assert first == second and hash(first) == hash(second)
    assert pickle.loads(pickle.dumps(first)) == first
    with pytest.raises(AttributeError):
        first.cores = 3  # type: ignore[misc]


@pytest.mark.parametrize("name", [*catalog_names(), *map(str, PROFILES), "native"])
def test_every_shipped_profile_loads(name: str) -> None:
    profile = load_profile(name)
    if name in catalog_names():
        assert profile.name == name
    assert profile.cores >= 1 and profile.lanes(FLOAT32) >= 1
    assert parse_profile(profile.source, "again").chip == profile.chip


def test_the_catalog_has_what_the_documentation_promises() -> None:
    assert {"x86-64-v2", "x86-64-v3", "x86-64-v4", "cortex-a55", "cortex-a76", "edge_npu_v2", "low_power_npu",
            "high_perf_npu", "generic_gpu"} == set(catalog_names())
    assert {path.stem for path in PROFILES} >= {"high_perf_gpu", "edge_npu_v2"}
    catalog, repository = load_profile("edge_npu_v2"), load_profile(ROOT / "profiles" / "edge_npu_v2.yaml")
    assert catalog == repository
    assert catalog.chip == parse_profile(DESIGN_EXAMPLE, "x").chip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("accelerator:\n  name: a\n  aligned_chanel: 32", "line 3: accelerator.aligned_chanel: unknown key, "
                                                         "did you mean 'aligned_channel'?"),
        ("accelerator:\n  name: a\n  zzzzzz: 32", "unknown key (known: name, compute_units"),
        ("accelerator: {name: a, compute_units: '4'}", "expected a valid integer, got '4' (units that work"),
        ("accelerator: {name: a, compute_units: 0}", "expected greater than or equal to 1, got 0"),
        ("accelerator: {name: a, compute_units: true}", "expected a valid integer"),
        ("accelerator: {name: a, unified_memory: 128 Mb}", "unknown unit 'Mb', did you mean 'MB'?"),
        ("accelerator: {name: a, unified_memory: 128 MB/s}", "unknown unit 'MB/s'"),
        ("accelerator: {name: a, unified_memory: much}", "expected a number (MiB) or text such as '4 MiB'"),
        ("accelerator: {name: a, bandwidth_mbps: -1}", "-1 is negative"),
        ("accelerator: {name: a, precision: fp16}", "expected a list, got 'fp16'"),
        ("accelerator: {name: a, precision: [fp17]}", "accelerator.precision[0]: expected 'fp32'"),
        ("accelerator: {name: a, data_layouts: [HWCN]}", "data_layouts[0]: text should match pattern"),
        ("accelerator: {compute_units: 4}", "accelerator.name: is missing"),
        ("accelerator: 3", "expected a mapping of keys, got 3"),
        ("accelerator: {name: a}\nname: b", "not beside 'name'"),
        ("name: a\ndevices: []", "expected at least one"),
        ("name: a", "devices: is missing"),
        ("name: a\ndevices:\n  - {name: d, kind: npus}", "line 3: devices[0].kind: expected 'cpu'"),
        ("name: a\ndevices: [{name: d, kind: cpu, isa: x86-64-v5}]", "expected one of x86-64, x86-64-v2"),
        ("name: a\ndevices: [{name: d, kind: cpu, features: [avx512vnni]}]", "did you mean 'avx512_vnni'"),
        ("name: a\ndevices: [{name: d, kind: npu, clock_mhz: 3}]", "did you mean 'clock_ghz'?"),
        ("name: a\ndevices: [{name: d, kind: npu, macs_per_cycle: {fp32: 0}}]", "expected greater than 0"),
        (f"{ONE_NPU}\nbackend: cpu", "needs a first device of kind cpu"),
        ("name: a\ndevices: [{name: d, kind: npu}, {name: d, kind: cpu}]", "'d' is given to 2 devices"),
        (f"{ONE_NPU}\nlinks: [{{from: x, to: d, bandwidth: 1}}]", "a link names 'x'"),
        (f"{ONE_NPU}\nlinks: [{{source: d, to: d, bandwidth: 1}}]", "links[0].source"),
        (f"{ONE_NPU}\npower: {{joules_per_byte: {{x: 1.0}}}}", "names 'x'"),
        ("a: [", "is not YAML"),
        ("name: a\nname: b", "line 2: is not YAML: found duplicate key"),
        ("- 1", "expected a mapping of keys"),
        ("", "expected a mapping of keys"),
    ],
)
def test_a_wrong_profile_is_explained(text: str, expected: str) -> None:
    assert expected in problem_of(text)


def test_all_problems_are_told_at_once() -> None:
    text = problem_of("name: a\ndevices:\n  - {name: d, kind: npus,\n     clock_ghz: fast}\n")
    assert "2 problems" in text
    assert "line 3: devices[0].kind" in text and "line 4: devices[0].clock_ghz" in text
    assert "clock of a compute unit, GHz" in text


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("edge_npu", "did you mean 'edge_npu_v2'"),
        ("nativ", "did you mean 'native'"),
        ("nothing-like-it", "profiles that ship: native, cortex-a55"),
        ("profiles/edge_npu_v3.yaml", "no such file"),
        ("profiles/", "is a folder"),
    ],
)
def test_a_missing_profile_names_the_nearest(
        name: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    with pytest.raises(ProfileError, match=expected):
        load_profile(name)


def test_a_file_that_is_no_text_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ProfileError, match="cannot be read"):
        load_profile(file)


def test_runs_on() -> None:
    v2, v3, v4 = (load_profile(f"x86-64-v{level}") for level in (2, 3, 4))
    assert v2.runs_on(v3) and v3.runs_on(v3) and not v4.runs_on(v3)
    assert not load_profile("cortex-a55").runs_on(v3) and not load_profile("edge_npu_v2").runs_on(v3)


def test_the_reference_names_every_field() -> None:
    from meta_infer.hardware import schema

    text = (ROOT / "docs" / "hardware-profiles.md").read_text(encoding="utf-8")
    models = [value for value in vars(schema).values()
              if isinstance(value, type) and issubclass(value, schema.Section)]
    fields = {field.alias or name for model in models for name, field in model.model_fields.items()}
    assert len(fields) > 40
    assert [name for name in sorted(fields) if f"`{name}`" not in text] == []


def test_code_for_another_instruction_set_has_none_of_the_fitted_costs() -> None:
    """They count whole registers of the chip's own."""
    cost = "cost: [{kernel_class: any, precision: fp32, alpha: {ports: 1e-10}, beta: {}, gamma: 1e-7, delta: {}, " \
           "fitted: 2026-11-30, samples: 400, error: 0.1}]"
    profile = parse_profile("name: x\nbackend: cpu\ndevices: [{name: c, kind: cpu, isa: x86-64-v3}]\n" + cost, "x")
    assert len(restrict(profile, "x86-64-v3").chip.cost) == 1 and restrict(profile, "x86-64-v2").chip.cost == ()

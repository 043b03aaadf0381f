"""What a profile does not say, and what follows from that: one warning each, the costliest first."""

from __future__ import annotations

from meta_infer.hardware.schema import Chip


def left_out(chip: Chip) -> tuple[str, ...]:
    """Warnings about the first device of `chip` and the memory it works in."""
    device = chip.devices[0]
    kinds = {memory.kind for memory in chip.memories}
    is_cpu = device.kind == "cpu"
    findings = [
        # A cpu's channel blocks follow from its vectors; on other chips a wrong width wastes whole units.
        (not is_cpu and device.aligned_channel is None,
         "aligned_channel is not stated: channels are not padded, and unaligned ones may run far below peak"),
        (chip.backend is None,
         "it has no code generator: packages are built for this machine and checked on it; its figures are estimates"),
        (device.compute_units is None, "compute_units is not stated: taken as 1"),
        (device.clock_ghz is None or not device.macs_per_cycle,
         "clock_ghz or macs_per_cycle is not stated: no compute bound on latency is known"),
        (not chip.links, "no bandwidth is stated: no memory bound on latency is known"),
        ("main" not in kinds, "no main memory is stated: memory use is not checked against it"),
        (is_cpu and not {"l1d", "l2"} <= kinds, "l1d or l2 is not stated: tiles fit no known cache"),
        (not is_cpu and device.supported_ops is None, "supported_ops is not stated: all are allowed"),
        (not is_cpu and not device.precision, "precision is not stated: fp32 is taken for granted"),
        (not is_cpu and not device.data_layouts, "data_layouts is not stated: NCHW is taken for granted"),
        (not is_cpu and chip.power is None, "power is not stated: energy is not estimated"),
    ]
    return tuple(text for missing, text in findings if missing)

"""The table of all probes that items of a checklist may name."""

from __future__ import annotations

from collections.abc import Mapping

from meta_infer.checklist.border_probes import BORDER_PROBES
from meta_infer.checklist.chip_probes import CHIP_PROBES
from meta_infer.checklist.model_probes import MODEL_PROBES
from meta_infer.checklist.number_probes import NUMBER_PROBES
from meta_infer.checklist.probe import Probe
from meta_infer.checklist.quantization_probes import QUANTIZATION_PROBES
from meta_infer.checklist.rule_probes import RULE_PROBES

PROBES: Mapping[str, Probe] = {probe.name: probe for probe in (
    *MODEL_PROBES, *BORDER_PROBES, *NUMBER_PROBES, *QUANTIZATION_PROBES, *CHIP_PROBES, *RULE_PROBES)}

"""The machine's peak and the rates of its memory at this moment, taken by this process between timings of its own.

    probes = LiveProbes(load_profile("native"), threads=1)
    rates = probes.take()                    # MachineRates, some 20 ms later
    ...                                      # time whole networks, other runtimes, anything
"""

from __future__ import annotations

from meta_infer.cost.floor import MachineRates
from meta_infer.hardware.profile import Profile
from meta_infer.search.measure.candidate import compile_candidates
from meta_infer.search.measure.measure import candidate_spec, measure_driver, peak_candidate
from meta_infer.search.measure.measure_child import Memory, Runner, load_driver
from meta_infer.search.measure.measure_protocol import CACHE_UNKNOWN
from meta_infer.search.measure.memory_probe import level_rates, memory_probes


class LiveProbes:
    """The probes of `measure`, loaded here: they are known not to crash. `profile` is that of this machine."""

    def __init__(self, profile: Profile, threads: int) -> None:
        """Compiles them where the cache has none. Raises ToolchainError."""
        assert profile.isa is not None, "the probe names an instruction set for every CPU that kernels are made for"
        self._threads = threads
        self._probes = memory_probes(profile)
        peak = peak_candidate(profile.isa)
        made = compile_candidates([probe.candidate for probe in self._probes], profile.isa)
        specs = [candidate_spec(candidate) for candidate in (peak, *made)]
        self._memory = Memory(specs, profile.l3_bytes or CACHE_UNKNOWN)
        driver = load_driver(str(measure_driver(profile.isa).path))
        self._flops = peak.flops
        self._peak, *self._levels = (Runner(driver, spec, self._memory, threads) for spec in specs)

    def peak(self) -> float:
        """Float32 operations per second of all threads together."""
        return self._flops / self._peak.turn()

    def rates(self) -> tuple[float, ...]:
        """The peak, and bytes per second of every memory probe."""
        moved = (probe.bytes / runner.turn() for probe, runner in zip(self._probes, self._levels, strict=True))
        return (self.peak(), *moved)

    def take(self) -> MachineRates:
        """The peak, and bytes per second of every level of memory."""
        peak, *rates = self.rates()
        return MachineRates(peak, level_rates(self._probes, tuple(rates), self._threads))

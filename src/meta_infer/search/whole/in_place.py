"""Times a package where it runs: the whole of it and each of its commands, round by round beside the machine's probes.

    for round in time_in_place(session, inputs, LiveProbes(profile, session.threads), rounds=11, seconds=6.0): ...

A round takes the machine's peak and the rate of every level of memory, then runs the network as a whole, and with a
clock around every command, for about as long each. Of each command the quickest run of the round counts, because one
that was interrupted says nothing. What lies between commands is the least that a run took beyond them: Python, the
call, the interpreter, and the clock (some 0.05 us for each). The network's time is that of its quickest whole run, or
all commands' together with what lies between where that is less, as it is on a busy machine.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from meta_infer.cost.floor import MachineRates
from meta_infer.runtime.session import Session
from meta_infer.search.measure.interleave import timed_runs
from meta_infer.search.measure.live_probes import LiveProbes

FEWEST_ROUNDS = 3


@dataclass(frozen=True)
class Round:
    """What the machine gave, seconds of one run of the network, and of every command by index.

    `rates` is None without probes.
    """

    rates: MachineRates | None
    seconds: float
    commands: np.ndarray


def time_in_place(session: Session, inputs: Mapping[str, np.ndarray], probes: LiveProbes | None, rounds: int,
                  seconds: float, holders: Sequence[int] = (), in_turns: int = 1) -> Iterator[Round]:
    """At most `rounds` rounds within about `seconds`, and at least three.

    `holders` are the commands of control flow: their time is that of their bodies, and counts as none. `in_turns` is
    the number of packages whose rounds the caller takes in turns, `seconds` for each.
    """
    share = max(0.0, seconds / rounds / 2.2)
    session.run(None, inputs)
    end = time.monotonic() + seconds * in_turns
    for done in range(rounds):
        if done >= FEWEST_ROUNDS and time.monotonic() > end:
            return
        rates = probes.take() if probes else None
        whole = min(timed_runs(lambda: session.run(None, inputs), 1, None, share))
        commands, outside = _profiled(session, inputs, share, list(holders))
        yield Round(rates, min(whole, float(commands.sum()) + outside), commands)


def _profiled(session: Session, inputs: Mapping[str, np.ndarray], share: float,
              holders: Sequence[int]) -> tuple[np.ndarray, float]:
    """The least of every command over the runs of `share` seconds, at least two; and the least time beyond them."""
    clocks = np.zeros(session.info.commands, np.int64)
    profiles: list[np.ndarray] = []
    outside, until = float("inf"), time.monotonic() + share
    while len(profiles) < 2 or time.monotonic() < until:
        clocks[:] = 0
        start = time.perf_counter()
        session.profile_into(inputs, clocks)
        took = time.perf_counter() - start
        clocks[holders] = 0
        profiles.append(clocks / 1e9)
        outside = min(outside, took - float(profiles[-1].sum()))
    return np.min(profiles, axis=0), outside

"""Markets of small graphs whose every price is made up: what a search would know after it has timed everything."""

from __future__ import annotations

import random

import numpy as np

from meta_infer.backends.registry import backend_for
from meta_infer.cost.model import CostModel
from meta_infer.hardware.load import load_profile
from meta_infer.ir.graph import Graph, Node, Value
from meta_infer.search.fine import Market
from meta_infer.search.space.coarse import coarse
from meta_infer.search.space.guesses import Guesses, roofline_model
from meta_infer.search.space.sites import Translated, sites_of
from meta_infer.search.space.space import make_space
from meta_infer.support.dtypes import FLOAT32


def residual_graph(channels: int = 16) -> Graph:
    """Convolutions with activations, two of them on one input, and a residual sum."""
    shape = (1, channels, 14, 14)
    values = {name: Value(name, FLOAT32, shape) for name in ("x", "a", "b", "c", "d", "e", "f", "y")}
    constants = {f"w{i}": np.ones((channels, channels, 3, 3), np.float32) for i in range(3)}
    values |= {name: Value(name, FLOAT32, array.shape) for name, array in constants.items()}
    attrs = {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1), "strides": (1, 1), "dilations": (1, 1), "group": 1}
    nodes = (Node("Conv", ("x", "w0"), ("a",), attrs, origins=("conv0",)), Node("Relu", ("a",), ("b",), {}),
             Node("Conv", ("b", "w1"), ("c",), attrs, origins=("conv1",)), Node("Add", ("c", "b"), ("d",), {}),
             Node("Relu", ("d",), ("e",), {}), Node("Conv", ("e", "w2"), ("f",), attrs, origins=("conv2",)),
             Node("Sigmoid", ("f",), ("y",), {}))
    return Graph("residual", ("x",), ("y",), nodes, values, constants)


def made_up_market(seed: int, timed: float = 1.0) -> Market:
    """Ways take what they are guessed to, times a random factor; the share `timed` of them has been timed."""
    rng, profile = random.Random(seed), load_profile("x86-64-v3")
    space = make_space(residual_graph(), profile, backend_for(profile).variants)
    sites, guesses = sites_of(space), Guesses(roofline_model(profile))
    coarse(sites.values(), profile, guesses, keep=6, slack=1.5)
    for site in sites.values():
        for known in site.ways.values():
            if rng.random() < timed:
                known.measured, known.spread = known.guess * rng.uniform(0.5, 2.0), 0.01 * known.guess
    market = Market(space, sites, Translated(sites, profile), guesses, CostModel.of(profile))
    guesses.learn(sites.values())
    return market

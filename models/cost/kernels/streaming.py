"""Time of what memory binds: norms, activations, casts, permutations, an unfused attention's scores.

Symbols, one meaning in this file:
    U   token copies one rank's experts receive        h  hidden
    A   bytes of a layer's activations in 16 bits       a  bytes of one element
Each time is forward and backward together; forward is a third of it.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from models.architecture import Architecture
from models.cost.kernels.pace import Pace
from models.cost.memory import activations
from models.cost.memory.activations import Split, Tensors
from models.layout import RecomputeModule
from models.rates import Rates

Array = NDArray[np.float64]

ATTENTION_OWN = frozenset({"scores", "statistics"})
"""Tensors the attention core moves itself: no pass of another kernel."""
ROUTED = frozenset({"router", "dispatched", "expert_pair", "expert_product"})
"""Tensors of the routed experts, whose kernels fuse where routing stays on the device."""


def dense_tensors(architecture: Architecture, part: Split) -> Tensors:
    """Activations of a dense layer that other kernels than products and attention pass over. [B], (N,)."""
    return _streamed(activations.dense_layer_tensors(architecture, _wide(part)))


def sparse_tensors(architecture: Architecture, part: Split) -> Tensors:
    """The same of a mixture-of-experts layer. [B], (N,)."""
    return _streamed(activations.sparse_layer_tensors(architecture, _wide(part)))


def _wide(part: Split) -> Split:
    """Everything in the activations' own type, whatever a product's input is kept in."""
    return replace(part, product_input=part.element)


def _streamed(tensors: Tensors) -> Tensors:
    return {name: value for name, value in tensors.items() if name not in ATTENTION_OWN}


def elementwise_seconds(tensors: Tensors, pace: Pace, part: Split) -> Array:
    """A x the passes over each byte, over the bandwidth; routed tensors at the routing's share, (N,). [s]."""
    total = np.zeros_like(part.tokens)
    for name, value in tensors.items():
        total = total + value * (pace.routing if name in ROUTED else 1.0)
    return np.asarray(total * pace.elementwise)


def repeated_seconds(
    tensors: Tensors, modules: tuple[RecomputeModule, ...], pace: Pace, part: Split
) -> Array:
    """Forward time of the tensors that selectively recomputed modules make again, (N,). [s]."""
    again = activations.dropped_shares(modules)
    dropped = {name: value * again[name] for name, value in tensors.items() if again.get(name)}
    return elementwise_seconds(dropped, pace, part) / 3


def dispatch_seconds(architecture: Architecture, part: Split, pace: Pace, rates: Rates) -> Array:
    """Permute the dispatched copies and restore them, both ways: a U h bytes a pass, (N,). [s]."""
    if architecture.moe is None:
        return np.zeros_like(part.tokens)
    copies = activations.dispatched_tokens(architecture, part)
    moved = rates.dispatch_passes * part.element * copies * architecture.hidden
    return np.asarray(moved * pace.byte * pace.routing)


def score_seconds(architecture: Architecture, part: Split, pace: Pace, rates: Rates) -> Array:
    """Scores an unfused attention writes and reads: bytes a score x T s heads / t, (N,). [s]."""
    scores = part.tokens * part.sequence * architecture.heads / part.tp
    return np.asarray(scores * rates.score_bytes * pace.byte)

"""Time of the attention core: a fused kernel on causal FLOPs, or two products and the scores between them.

Symbols: s tokens a sequence, d head size, T tokens of a micro-batch on one CP rank, t TP degree.
"""

import numpy as np
from numpy.typing import NDArray

from models.cost.flops import attention_flops
from models.cost.kernels.gemms import ProductPace
from models.cost.kernels.pace import Pace
from models.cost.kernels.streaming import score_seconds
from models.cost.memory.activations import Split
from models.cost.setting import Setting
from models.rates import Rates

Array = NDArray[np.float64]


def attention_seconds(
    setting: Setting, part: Split, pace: Pace, products: ProductPace, rates: Rates
) -> tuple[Array, Array]:
    """Time of a layer's attention core, forward and backward, (N,) each. [s].

    A fused kernel computes only what a causal mask leaves; its backward makes the scores anew, five
    products where the forward has two. Unfused, the scores of the whole square are two batched
    products of depth d, whose small depth costs, and cross HBM.
    """
    architecture, s = setting.architecture, setting.workload.sequence_length
    share = part.tokens / part.tp
    if part.fused:
        forward = attention_flops(architecture, s) * share / pace.attention
        return np.asarray(forward), np.asarray(forward * rates.attention_backward_factor)
    shape = 1 + products.shape_loss * (2 / s + 1 / architecture.head_size)
    squares = attention_flops(architecture, s, causal=False) * share / pace.attention * shape
    forward = squares + score_seconds(architecture, part, pace, rates) / 3
    return np.asarray(forward), np.asarray(2 * forward)

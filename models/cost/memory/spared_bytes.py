"""What a layer that full recompute spares adds to what its stage holds.

Symbols: N layouts, S kinds of stages. [B]
"""

import numpy as np
from numpy.typing import NDArray

from models.cost.memory import activations
from models.cost.memory.stage_bytes import kept_layer_bytes, layer_bytes, stages_in_flight
from models.cost.setting import Setting
from models.cost.stages import Stages
from models.cost.table import LayoutTable

Array = NDArray[np.float64]


def spared_layer_bytes(table: LayoutTable, stages: Stages, setting: Setting) -> tuple[Array, Array]:
    """Return what a dense layer and a sparse one add where they are not recomputed, (N, S) each. [B].

    All they make less their input, of every micro-batch in flight, and the allocator's share of it. An
    upper bound: the copies of gradients that freed activations make room for (`gradient_habits`) shrink.

    Parameters
    ----------
    table
        Layouts of full recompute.
    """
    part = activations.split(table, setting)
    inputs = activations.checkpoint_bytes(
        part.tokens, setting.architecture.hidden, part.residual, part.element
    )
    whole, kept = layer_bytes(table, setting, part), kept_layer_bytes(table, setting, part, inputs)
    held = stages_in_flight(table, stages, setting)
    served = setting.framework.reserved_over_allocated if setting.profile.working_buffers else 1.0
    dense, sparse = whole.dense - kept.dense, whole.sparse - kept.sparse
    return held * (served * dense)[:, None], held * (served * sparse)[:, None]

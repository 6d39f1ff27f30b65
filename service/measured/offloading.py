"""How much of its activations a run offloaded, where its file says only that it did."""

from dataclasses import replace

from models.cost.memory.stage_bytes import peak_bytes
from models.cost.setting import Setting
from models.cost.table import LayoutTable
from models.layout import Layout
from service.measured.run import MeasuredRun
from service.measured.told import Told


def offloading(run: MeasuredRun, setting: Setting, layout: Layout, told: Told) -> Setting:
    """Return the setting with the share of layers that are offloaded: the file's, else the least that fits.

    Copies cost time, so whoever offloads does so for memory's sake. All layers where nothing fits.
    """
    if not run.activation_offload or run.offload_share is not None:
        return setting
    layers, table = max(map(sum, _stages(layout))), LayoutTable.of([layout])
    least, most = 1, layers
    while least < most:
        middle = (least + most) // 2
        fits = peak_bytes(table, _sharing(setting, middle / layers))[0] <= setting.memory_limit_bytes
        least, most = (least, middle) if fits else (middle + 1, most)
    why = "not stated: the fewest layers of a stage that make it fit"
    return _sharing(setting, told.assume("offload_share", round(least / layers, 4), why))


def _stages(layout: Layout) -> list[tuple[int, ...]]:
    """Layers of each stage's chunks."""
    return [layout.stage_layers[stage :: layout.pp] for stage in range(layout.pp)]


def _sharing(setting: Setting, share: float) -> Setting:
    return replace(setting, stack=setting.stack.model_copy(update={"offload_share": share}))

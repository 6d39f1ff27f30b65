"""How long each chunk of a layout takes, for its schedule to be run: the figures `price_one` runs it by."""

from models.cost.kernels.compute import compute_seconds
from models.cost.pipeline.simulate import Durations
from models.cost.setting import Setting
from models.cost.stages import every_chunk, stage_kinds
from models.cost.step.step_time import all_traffic, micro_batch_parts, micro_batch_work
from models.cost.table import LayoutTable
from models.cost.traffic.pipeline_traffic import boundary_seconds
from models.layout import Layout


def chunk_durations(layout: Layout, setting: Setting) -> Durations:
    """Return what every pass of every chunk takes, and a message over each boundary. [s].

    Parameters
    ----------
    layout
        The layout; its micro-batches are of one replica.
    setting
        What it is priced under.
    """
    table = LayoutTable.of([layout])
    traffic = all_traffic(table, stage_kinds(table, setting), setting)
    compute = compute_seconds(table, setting)
    code = int(table.schedule[0])
    chunks = every_chunk(layout.pp, layout.vpp, setting, layout.stage_layers, code, table.recomputed)
    parts = micro_batch_parts(table, compute, chunks, traffic, setting)
    work = micro_batch_work(table, compute, parts, chunks, setting)
    message = 0.0 if setting.profile.pp_hidden else boundary_seconds(table, traffic.pp, setting)
    return Durations.of(
        chunks.index.shape[1],
        work.forward[0],
        work.input_gradient[0],
        work.weight_gradient[0],
        message,
        float(work.pair.sum() / work.pace.sum()),
    )

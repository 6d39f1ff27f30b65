"""Every way to tell a framework a split of layers, plainest first; the forms themselves are `split_forms`.

Symbols: L decoder layers, p ranks, v chunks a rank, C = p v chunks in execution order.

References
----------
.. [1] Megatron-LM, arguments `--account-for-embedding-in-pipeline-split`,
   `--account-for-loss-in-pipeline-split`, `--decoder-first-pipeline-num-layers`,
   `--decoder-last-pipeline-num-layers`, `--pipeline-model-parallel-layout`,
   `--num-virtual-stages-per-pipeline-rank`.
.. [2] torchtitan, `parallelism.pipeline_parallel_layers_per_stage`, `..._first_stage_less_layers`,
   `..._last_stage_less_layers`, `parallelism.module_fqns_per_model_part`.
"""

from collections.abc import Iterator
from itertools import accumulate

from models.cost.pipeline.split_forms import (
    Split,
    counted_split,
    ends_split,
    lighter_ends_split,
    write_layout,
)
from models.split import SplitWay

Settings = dict[str, int | bool | str]

COUNTED = {"--account-for-embedding-in-pipeline-split": 0, "--account-for-loss-in-pipeline-split": 1}
GIVEN = {"--decoder-first-pipeline-num-layers": 0, "--decoder-last-pipeline-num-layers": 1}
CHUNKS = "--num-virtual-stages-per-pipeline-rank"
LAYOUT = "--pipeline-model-parallel-layout"
PER_STAGE = "parallelism.pipeline_parallel_layers_per_stage"
FIRST_LESS = "parallelism.pipeline_parallel_first_stage_less_layers"
LAST_LESS = "parallelism.pipeline_parallel_last_stage_less_layers"
MODULES = "parallelism.module_fqns_per_model_part"
USUAL = (1, 1)
"""Layers less on the first and the last chunk unless said otherwise [2]. [1]"""


def megatron_ways(split: Split, pp: int, mtp_layers: int = 0) -> Iterator[SplitWay]:
    """Ways to say a split to Megatron-LM [1]: even or ends counted, ends given, and always the layout string.

    Chunk k is on rank k mod p. Each form is told once, as short as it can be said.

    >>> [(way.way, way.settings) for way in megatron_ways((16, 16, 16, 13), 4)][0]
    ('ends_given', {'--decoder-last-pipeline-num-layers': 13})
    """
    layers, vpp = sum(split), len(split) // pp
    chunks: Settings = {CHUNKS: vpp} if vpp > 1 else {}
    for ends in ((False, False), (True, True), (False, True), (True, False)):
        if counted_split(layers, pp, vpp, embedding=ends[0], loss=ends[1]) == split:
            counted = {flag: True for flag, end in COUNTED.items() if ends[end]}
            yield _megatron("ends_counted" if counted else "even", counted | chunks)
            break
    if len(set(split)) > 1 and (given := _given_ends(split, pp)):
        yield _megatron("ends_given", given | chunks)
    yield _megatron("layout", {LAYOUT: write_layout(split, mtp_layers)})


def torchtitan_ways(split: Split, pp: int) -> Iterator[SplitWay]:
    """Ways to say a split to torchtitan [2]: lighter ends where they give it, and always the modules.

    >>> found = list(torchtitan_ways((4, 5, 4, 4, 4, 4, 4, 3), 8))[0].settings
    >>> found == {FIRST_LESS: 1, LAST_LESS: 1}
    True
    """
    weights = _lighter_ends(split)
    if weights is not None:
        settings = _stages(sum(split) + sum(weights), len(split), pp)
        if settings is not None:
            lighter = {FIRST_LESS: weights[0], LAST_LESS: weights[1]}
            yield SplitWay(framework="torchtitan", way="lighter_ends", settings=settings | lighter)
    yield SplitWay(framework="torchtitan", way="modules", settings={MODULES: _modules(split)})


def _given_ends(split: Split, pp: int) -> Settings | None:
    """The fewest ends whose layers, once given, make the split; Megatron-LM takes none of no layers."""
    layers, vpp = sum(split), len(split) // pp
    first, last = sum(split[::pp]), sum(split[pp - 1 :: pp])
    for ends in ((None, last), (first, None), (first, last)):
        if 0 not in ends and ends_split(layers, pp, vpp, first=ends[0], last=ends[1]) == split:
            return {flag: size for flag, end in GIVEN.items() if (size := ends[end]) is not None}
    return None


def _megatron(way: str, settings: Settings) -> SplitWay:
    return SplitWay.model_validate({"framework": "megatron", "way": way, "settings": settings})


def _lighter_ends(split: Split) -> tuple[int, int] | None:
    """Layers less on the first and the last chunk that make the split; the usual, else the fewest."""
    layers, most = sum(split), max(split)
    found = []
    for each in (most - 1, most):
        for more in (0, 1):
            less = (each + more - split[0], each - split[-1])
            if min(less) >= 0 and lighter_ends_split(layers, len(split), *less) == split:
                found.append(less)
    return min(found, key=lambda less: (less != USUAL, sum(less)), default=None)


def _stages(weight: int, chunks: int, pp: int) -> Settings | None:
    """What makes torchtitan cut as many chunks: nothing up to two a rank, else layers a chunk, if any do."""
    if chunks <= 2 * pp:
        return {}
    each = -(-weight // chunks)
    return {PER_STAGE: each} if -(-weight // each) == chunks else None


def _modules(split: Split) -> str:
    """Modules of every chunk; layers as first-last.

    >>> _modules((2, 0, 1))
    'tok_embeddings layers.0-1 | - | layers.2 norm output'
    """
    starts = (0, *accumulate(split))
    chunks = [_layers(start, size) for start, size in zip(starts, split, strict=False)]
    chunks[0] = f"tok_embeddings {chunks[0]}".strip()
    chunks[-1] = f"{chunks[-1]} norm output".strip()
    return " | ".join(chunk or "-" for chunk in chunks)


def _layers(start: int, size: int) -> str:
    if size == 0:
        return ""
    return f"layers.{start}" if size == 1 else f"layers.{start}-{start + size - 1}"

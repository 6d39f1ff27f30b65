"""The ways frameworks say how layers are split: even, ends counted as a layer, given ends, a layout string.

Symbols: L decoder layers, p ranks, v chunks a rank, C = p v chunks; chunk k is on rank k mod p.

References
----------
.. [1] Megatron-LM, arguments `--account-for-embedding-in-pipeline-split`,
   `--account-for-loss-in-pipeline-split`, `--decoder-first-pipeline-num-layers`,
   `--decoder-last-pipeline-num-layers`, `--pipeline-model-parallel-layout`.
.. [2] torchtitan, `pipeline_parallel_first_stage_less_layers`, `..._last_...`, `..._layers_per_stage`.
"""

import re
from dataclasses import dataclass
from itertools import groupby

Split = tuple[int, ...]


def counted_split(
    layers: int, pp: int, vpp: int = 1, *, embedding: bool = False, loss: bool = False
) -> Split | None:
    """Split evenly with the embedding, the loss or both counted as a layer [1]; nothing where uneven.

    >>> counted_split(30, 4, embedding=True, loss=True)
    (7, 8, 8, 7)
    """
    size, left = divmod(layers + embedding + loss, pp * vpp)
    split = [size] * (pp * vpp)
    split[0] -= embedding
    split[-1] -= loss
    return None if left or min(split) < 0 else tuple(split)


def ends_split(
    layers: int, pp: int, vpp: int = 1, *, first: int | None = None, last: int | None = None
) -> Split | None:
    """Split with the first or last rank's layers given, the others even [1]; nothing where uneven.

    A rank's layers are spread evenly over its v chunks.

    >>> ends_split(61, 4, last=13)
    (16, 16, 16, 13)
    """
    given = [end for end in (first, last) if end is not None]
    between, left = pp - len(given), layers - sum(given)
    if between < 0 or left < 0 or (between == 0) != (left == 0) or (between and left % between):
        return None
    ranks = [left // between if between else 0] * pp
    if first is not None:
        ranks[0] = first
    if last is not None:
        ranks[-1] = last
    return None if any(size % vpp for size in ranks) else tuple(size // vpp for size in ranks) * vpp


def lighter_ends_split(layers: int, stages: int, first_less: int = 1, last_less: int = 1) -> Split | None:
    """Split so that stages are even with the ends counted as that many layers [2].

    What does not divide goes to the first stages; nothing where an end would have fewer than none.

    >>> lighter_ends_split(32, 8), lighter_ends_split(4, 8)
    ((4, 5, 4, 4, 4, 4, 4, 3), None)
    """
    each, more = divmod(layers + first_less + last_less, stages)
    split = [each + (stage < more) for stage in range(stages)]
    split[0] -= first_less
    split[-1] -= last_less
    return None if not each or min(split) < 0 else tuple(split)


@dataclass(frozen=True)
class LayoutString:
    """A Megatron layout: what each chunk holds, in execution order."""

    chunks: tuple[str, ...]
    """E embedding, t decoder layer, m predicted-token layer, L loss."""
    pp: int
    """Ranks, p."""

    @property
    def layers(self) -> Split:
        """Decoder layers of each chunk, (C,)."""
        return tuple(chunk.count("t") for chunk in self.chunks)

    @property
    def rank_layers(self) -> Split:
        """Decoder layers of each rank, (p,)."""
        return tuple(sum(self.layers[rank :: self.pp]) for rank in range(self.pp))

    def ranks_with(self, letter: str) -> tuple[int, ...]:
        """Return the ranks that hold a kind of layer."""
        return tuple(sorted({k % self.pp for k, chunk in enumerate(self.chunks) if letter in chunk}))


def read_layout(text: str, pp: int) -> LayoutString:
    """Read a layout string [1]: `|` ends a chunk, `x*n` and `(...)*n` repeat, commas mean nothing.

    Raises
    ------
    ValueError
        A letter or form it does not have, or chunks p does not divide.

    Examples
    --------
    >>> read_layout("Et*2|(tt|)*2tmL", 2).chunks
    ('Ett', 'tt', 'tt', 'tmL')
    """
    plain = text.replace(",", "").replace(" ", "")
    for repeated in (r"([EtmL|])\*(\d+)", r"\(([EtmL|]+)\)\*(\d+)"):
        plain = re.sub(repeated, lambda found: found[1] * int(found[2]), plain)
    if not re.fullmatch(r"[EtmL|]+", plain):
        raise ValueError(f"layout = {text!r}: only E, t, m, L, |, repeats and commas; got {plain!r}")
    chunks = tuple(plain.split("|"))
    if len(chunks) % pp:
        raise ValueError(f"layout = {text!r}: {len(chunks)} chunks on {pp} ranks")
    return LayoutString(chunks, pp)


def write_layout(split: Split, mtp_layers: int = 0) -> str:
    """Write a split as a layout string, predicted-token layers and loss on the last chunk [1].

    >>> write_layout((1, 2, 2, 2, 0), 1), write_layout((7, 8, 8, 7))
    ('Et|(tt|)*3mL', 'Et*7|(t*8|)*2t*7L')
    """
    tail = "m" * mtp_layers + "L"
    if len(split) == 1:
        return f"E{_layers(split[0])}{tail}"
    inner = "".join(_run(size, len(list(run))) for size, run in groupby(split[1:-1]))
    return f"E{_layers(split[0])}|{inner}{_layers(split[-1])}{tail}"


def _layers(count: int) -> str:
    return "t" * count if count < 3 else f"t*{count}"


def _run(size: int, times: int) -> str:
    return f"{_layers(size)}|" if times == 1 else f"({_layers(size)}|)*{times}"

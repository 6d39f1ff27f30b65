"""What a measured memory is: its unit, and which of a process's bytes it counts.

Three things are published as "memory": what the framework's allocator handed out at the peak
(`allocated`), what it held from the driver (`reserved`: the same and what it lost to fragments), and
what the whole process took of the card (`process`: the CUDA context and the communicators too).
"""

from typing import Literal

from models.estimate import Memory

Scope = Literal["allocated", "reserved", "process"]

GB, THOUSAND_MIB = 1_000_000_000, 1000 * 1_048_576
OUTSIDE_THE_ALLOCATOR = ("cuda_context", "communicators")
"""Lines of a stage that the framework's allocator never sees: the driver's and NCCL's own memory."""


def scope_of(kind: str) -> Scope | None:
    """Which bytes a kind of measurement counts; None for a kind we do not know.

    What follows a semicolon is a remark.

    >>> scope_of("max over ranks of torch max_memory_allocated, GiB x1.0737; reserved=70.88 GiB")
    'allocated'
    >>> scope_of("nvidia-smi max over first/last node, GB as printed"), scope_of("guessed")
    ('process', None)
    """
    said = kind.partition(";")[0].lower()
    if "nvidia-smi" in said:
        return "process"
    if "allocated" in said:
        return "allocated"
    return "reserved" if "reserved" in said else None


def bytes_of(value: float, kind: str) -> int:
    """A measured memory in bytes. [B].

    - Where the source's unit was explicit the file holds decimal GB ("GiB x1.0737", "MiB x1.0486").
    - `nvidia-smi` prints MiB, and its "GB" there is a thousand of them: one run says 80 on cards of 79.35
      GiB, which a division by 1,024 cannot give, and the difference of two layouts that differ in data
      parallelism alone rules out decimal GB.
    - A training log's "GB as printed" is decimal: Megatron-Bridge divides by 1e9, as a card whose
      309,220,868,096 bytes it logs as 309.22 shows.

    >>> bytes_of(76, "nvidia-smi max over first/last node, GB as printed")
    79691776000
    >>> bytes_of(58.8, "peak allocated, GB as printed")
    58800000000
    """
    binary = scope_of(kind) == "process" and "as printed" in kind
    return round(value * (THOUSAND_MIB if binary else GB))


FRAGMENTS = ("fragmentation", "fragmentation_routed")
"""Lines the allocator holds and has handed to nobody."""


def comparable_bytes(memory: Memory, scope: Scope) -> int:
    """What a prediction says of the bytes a measurement counts, on the heaviest stage. [B].

    Without context and communicators for what the allocator reports.
    """
    if scope == "process":
        return memory.peak_bytes
    outside = OUTSIDE_THE_ALLOCATOR + (FRAGMENTS if scope == "allocated" else ())
    return max(
        stage.total_bytes - sum(stage.details.get(name, 0) for name in outside) for stage in memory.stages
    )

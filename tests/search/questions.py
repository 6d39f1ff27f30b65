"""Small questions the search tests share, and the search's whole answer before it is cut to a shortlist."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from models.architecture import Architecture, LatentAttention, MixtureOfExperts
from models.catalogue import Resolved
from models.cost.setting import Setting
from models.request import Constraints, SearchRequest
from search.best import Wanted
from search.bounds import memory_bounds
from search.census import Census, take_census
from search.clock import Clock
from search.problem import problem_of
from search.score import price_layouts, ranked
from search.solve import enumerate_cells
from tests.brute_force import Knobs, every_layout, first_broken_rule, priced
from tests.builders import DGX, setting, workload

DENSE = Architecture(
    name="dense", hidden=512, layers=12, heads=16, kv_heads=4, head_size=32, ffn=1536, vocabulary=1000
)
THREES = Architecture(
    name="threes", hidden=768, layers=10, heads=24, kv_heads=6, head_size=32, ffn=2304, vocabulary=1000
)
MOE = Architecture(
    name="moe", hidden=256, layers=6, heads=12, kv_heads=4, head_size=32, ffn=768, vocabulary=1000,
    moe=MixtureOfExperts(
        experts=12, experts_per_token=2, expert_ffn=384, shared_expert_ffn=192, dense_first=1
    ),
)  # fmt: skip
LATENT = Architecture(
    name="latent", hidden=256, layers=5, heads=8, kv_heads=8, head_size=32, ffn=512, vocabulary=1000,
    mla=LatentAttention(key_value_lora_rank=32, nope_head_size=16, rope_head_size=8, value_head_size=16),
    moe=MixtureOfExperts(experts=8, experts_per_token=2, expert_ffn=256),
)  # fmt: skip

FREE = Constraints()
"""No constraint at all."""
ROOMY = 10**15
"""A limit that nothing reaches. [B]"""


@dataclass(frozen=True)
class Question:
    """A search over a small architecture."""

    architecture: Architecture
    gpus: int
    batch: int
    sequence: int = 512
    constraints: Constraints = FREE
    share: float = 0.5
    """Part of the layouts that keep the other rules which the memory limit lets through."""
    objective: str = "step_time"
    profile: str = "calibrated"
    limit: int | None = None
    """The limit itself, where `share` does not decide it. [B]"""

    def setting(self) -> Setting:
        """What the layouts are priced under."""
        known: dict[str, Any] = {"gpus": self.gpus, "workload": workload(self.sequence, self.batch)}
        roomy = setting(self.architecture, self.profile, memory_limit_bytes=ROOMY, **known)
        limit = self._share_of_peaks(roomy) if self.limit is None else self.limit
        return setting(self.architecture, self.profile, memory_limit_bytes=limit, **known)

    def request(self, **more: Any) -> SearchRequest:
        """The question as a caller asks it."""
        return SearchRequest(
            model="small",
            cluster="small",
            gpus=self.gpus,
            workload={"sequence_length": self.sequence, "global_batch": self.batch},
            constraints=self.constraints,
            objective=self.objective,
            profile=self.profile,
            **more,
        )

    def _share_of_peaks(self, roomy: Setting) -> int:
        free = self.constraints.model_copy(update={"forbid": ()})
        whole = [k for k in every_layout(roomy, free) if first_broken_rule(k, roomy, free) is None]
        if not whole:
            return ROOMY
        return int(np.quantile(priced(whole, roomy, free, "memory"), self.share, method="lower"))


def resolved(under: Setting) -> Resolved:
    """Return a setting as the catalogue resolves a request."""
    return Resolved(
        architecture=under.architecture,
        cluster=DGX,
        gpus=under.gpus,
        workload=under.workload,
        profile=under.profile,
        memory_limit_bytes=under.memory_limit_bytes,
        assumptions=(),
        warnings=(),
    )


@dataclass(frozen=True)
class Everything:
    """All the search found, best first."""

    fit: list[Knobs]
    census: Census
    complete: bool


def search_everything(question: Question, under: Setting) -> Everything:
    """Run the search with a shortlist that holds every layout."""
    clock, wanted = Clock(600), Wanted(question.objective, "layout", 10**9)  # type: ignore[arg-type]
    problem = problem_of(question.request(), resolved(under))
    census = take_census(problem, clock)
    solution = enumerate_cells(problem, census, memory_bounds(problem, census.cells, Clock(600)), clock)
    scored = price_layouts(problem, census, solution, wanted, clock)
    best = ranked(scored)
    rows = (
        []
        if best is None
        else zip(*(getattr(best.table, name).tolist() for name in Knobs._fields), strict=True)
    )
    fit = [Knobs(*row) for row in rows]
    assert len(fit) == scored.fit == int(scored.fit_of_shape.sum())
    return Everything(fit, census, solution.complete and scored.complete)

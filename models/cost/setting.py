"""Everything a price depends on besides the layout: the question, resolved."""

from dataclasses import dataclass, field

from models.architecture import Architecture
from models.hardware import Cluster
from models.profile import Profile
from models.stack import Stack
from models.workload import Workload


@dataclass(frozen=True)
class Setting:
    """One resolved question; every layout of a search is priced under the same one."""

    architecture: Architecture
    cluster: Cluster
    gpus: int
    workload: Workload
    profile: Profile
    memory_limit_bytes: int
    """What a GPU may use: the limit less the reserve. [B]"""
    stack: Stack = field(default_factory=Stack)
    """Software knobs that are not searched."""

    @property
    def mtp_layers(self) -> int:
        """Multi-token-prediction layers that are trained, on the last stage. [1]."""
        return self.architecture.mtp_layers if self.stack.mtp else 0

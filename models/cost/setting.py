"""Everything a price depends on besides the layout: the question, resolved."""

from dataclasses import dataclass, field

from models.architecture import Architecture
from models.framework import Framework
from models.hardware import Cluster
from models.link import LinkClass
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
    links: tuple[LinkClass, ...]
    """Constants of each tier's fabric class, innermost first."""
    framework: Framework
    """What the training framework keeps beyond the arithmetic."""
    stack: Stack = field(default_factory=Stack)
    """Software knobs that are not searched."""

    @property
    def logits_copies(self) -> int:
        """FP32 copies of the logits the loss makes: none when it is fused. [1]."""
        return 0 if self.stack.fused_loss else self.framework.logits_fp32_copies

    @property
    def weight_is_master(self) -> bool:
        """Under ZeRO-3 the sharded weight is the FP32 master, and the 16-bit one exists only gathered."""
        habit = self.framework.weight_is_master and self.profile.working_buffers
        return habit and self.workload.recipe.master > 0

    @property
    def offloaded(self) -> float:
        """Share of each stage's layers whose activations wait in the host's memory. [1]."""
        return self.stack.offload_share if self.stack.activation_offload else 0.0

    @property
    def mtp_layers(self) -> int:
        """Multi-token-prediction layers that are trained, on the last stage. [1]."""
        return self.architecture.mtp_layers if self.stack.mtp else 0

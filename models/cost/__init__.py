"""The cost physics: N layouts in, (N,) numbers out; no input or output, no state.

`kernels/` times one GPU's kernels, `network/` places groups on the fabric and times their collectives,
`traffic/` says who sends what, `memory/` what a stage holds, `pipeline/` what its schedule adds, `step/`
sums them up to a step. `published/` holds what papers print in closed form, to compare with.

`estimate` prices a table of layouts for a search; `candidate` tells everything about one, and
`matrix_report` who sends how much to whom.
"""

from models.cost.price import Estimates, estimate
from models.cost.report import candidate
from models.cost.setting import Setting
from models.cost.table import LayoutTable
from models.cost.traffic.matrix_report import matrix_report

__all__ = ["Estimates", "LayoutTable", "Setting", "candidate", "estimate", "matrix_report"]

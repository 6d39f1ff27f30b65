"""The cost physics: N layouts in, (N,) numbers out; no input or output, no state.

`estimate` prices a table of layouts for a search; `candidate` tells everything about one, and
`matrix_report` who sends how much to whom.
"""

from models.cost.matrix_report import matrix_report
from models.cost.price import Estimates, estimate
from models.cost.report import candidate
from models.cost.setting import Setting
from models.cost.table import LayoutTable

__all__ = ["Estimates", "LayoutTable", "Setting", "candidate", "estimate", "matrix_report"]

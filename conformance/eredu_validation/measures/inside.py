"""What the validator uses of the inside of eredu's engine: all of it is named here, and nowhere else.

Outputs are drawn through the loaded model, as by any program. What they are held against is measured from inside: plain
rows out of the target's own caches, the drafter's rows, and the state behind a commit.
"""

from eredu.engine.mlx_backend import Assistant, MlxBackend
from eredu.engine.probe import require_norms
from eredu.engine.sequence import MlxSequence
from eredu.families.prediction_heads import PredictionHeads
from eredu.families.teacher_forcing import outputs_along
from eredu.mlx.adapter import Split
from eredu.mlx.caches.sequence import SequenceCache
from eredu.mlx.draws import gumbels, key_rows
from eredu.mlx.history import HistoryRows
from eredu.mlx.models import FittedModel
from eredu.mlx.rows import process_rows

__all__ = [
    "Assistant",
    "FittedModel",
    "HistoryRows",
    "MlxBackend",
    "MlxSequence",
    "PredictionHeads",
    "SequenceCache",
    "Split",
    "gumbels",
    "key_rows",
    "outputs_along",
    "process_rows",
    "require_norms",
]

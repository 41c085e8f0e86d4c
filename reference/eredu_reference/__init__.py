"""The reference engine: plain and speculative decoding in float64, slow and obvious.

`decode_plain` is a loop of its own and knows nothing of proposals; `decode_speculative` follows the rules of the spec
with every part replaceable by name. Neither imports the library or any array framework but numpy.
"""

from eredu_reference.constraint import Constraint, DfaConstraint
from eredu_reference.engine import decode_speculative
from eredu_reference.errors import (
    AcceptanceError,
    CacheError,
    Cancelled,
    ConstraintError,
    ReferenceFailure,
    RequestError,
)
from eredu_reference.models import Drafter, Model
from eredu_reference.pieces import PIECES, Pieces
from eredu_reference.plain import PlainResult, decode_plain
from eredu_reference.prefix import PrefixStore
from eredu_reference.report import Report
from eredu_reference.requests import AcceptanceRule, Request, Sampling, Schedule, TextOptions
from eredu_reference.sources import RandomSource, ThreefrySource, source_of
from eredu_reference.terminal import FinishReason
from eredu_reference.together import decode_together

__all__ = [
    "PIECES",
    "AcceptanceError",
    "AcceptanceRule",
    "CacheError",
    "Cancelled",
    "Constraint",
    "ConstraintError",
    "DfaConstraint",
    "Drafter",
    "FinishReason",
    "Model",
    "Pieces",
    "PlainResult",
    "PrefixStore",
    "RandomSource",
    "ReferenceFailure",
    "Report",
    "Request",
    "RequestError",
    "Sampling",
    "Schedule",
    "TextOptions",
    "ThreefrySource",
    "decode_plain",
    "decode_speculative",
    "decode_together",
    "source_of",
]

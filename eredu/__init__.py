"""eredu: lossless multi-token prediction for MLX.

>>> import eredu
>>> model = eredu.load("tiny-qwen3.5")
>>> model.generate("Write a story about a lighthouse.", max_tokens=4).finish.value
'length'

What a program needs is here, and importing it is light: MLX comes with the first `load`. Authors of backends and
drafters find the protocols in `eredu.contract`, the scheduler in `eredu.scheduling`, and a model on any backend in
`eredu.loaded`.
"""

from __future__ import annotations

from eredu.contract.errors import EreduError
from eredu.contract.events import RequestFinished, TokensCommitted
from eredu.contract.terminal import FinishReason
from eredu.model import Model, load
from eredu.request_options import RequestOptions
from eredu.results import BatchResult, GenerationResult
from eredu.session import Session
from eredu.speculation import Speculation
from eredu.stream import Stream

__version__ = "0.1.0"

__all__ = [
    "BatchResult",
    "EreduError",
    "FinishReason",
    "GenerationResult",
    "Model",
    "RequestFinished",
    "RequestOptions",
    "Session",
    "Speculation",
    "Stream",
    "TokensCommitted",
    "load",
]

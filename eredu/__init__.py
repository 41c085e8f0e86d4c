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

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

_PLACES = {
    "BatchResult": "eredu.results",
    "EreduError": "eredu.contract.errors",
    "FinishReason": "eredu.contract.terminal",
    "GenerationResult": "eredu.results",
    "Model": "eredu.model",
    "RequestFinished": "eredu.contract.events",
    "RequestOptions": "eredu.request_options",
    "Session": "eredu.session",
    "Speculation": "eredu.speculation",
    "Stream": "eredu.stream",
    "TokensCommitted": "eredu.contract.events",
    "load": "eredu.model",
}


def __getattr__(name: str) -> Any:
    """A name of `__all__`, imported when it is first asked for: a command answers signals before it imports more."""
    if name not in _PLACES:
        raise AttributeError(f"module 'eredu' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_PLACES[name]), name)
    return value


def __dir__() -> list[str]:
    """All that is there, whether or not it was asked for."""
    return sorted({*globals(), *__all__})

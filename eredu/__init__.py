"""eredu: lossless multi-token prediction for MLX.

The portable names are here at once; `load` and `load_assistant` import MLX when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eredu.contract.backend import GenerationBackend, SpeculativeGenerationBackend, SpeculativeGenerationVisitor
from eredu.contract.capability import MtpCapability, MtpCheckpointKind, MtpState
from eredu.contract.constraint import Constraint
from eredu.contract.errors import EreduError
from eredu.contract.events import RequestFinished, TokensCommitted
from eredu.contract.executor import DraftBlock, ExecutorTraits, SpeculativeExecutor
from eredu.contract.options import AcceptanceRule, GenerationOptions, MtpSchedulerOptions, SamplingOptions
from eredu.contract.request import GenerationRequest
from eredu.contract.statistics import RequestStatistics, ScheduleStatistics
from eredu.contract.terminal import FinishReason
from eredu.loaded import BatchResult, GenerationResult, LoadedModel, PreparedRequest
from eredu.scheduling.scheduler import SpeculativeScheduler

if TYPE_CHECKING:
    from eredu.engine.load import load, load_assistant

__version__ = "0.1.0"

__all__ = [
    "AcceptanceRule",
    "BatchResult",
    "Constraint",
    "DraftBlock",
    "EreduError",
    "ExecutorTraits",
    "FinishReason",
    "GenerationBackend",
    "GenerationOptions",
    "GenerationRequest",
    "GenerationResult",
    "LoadedModel",
    "MtpCapability",
    "MtpCheckpointKind",
    "MtpSchedulerOptions",
    "MtpState",
    "PreparedRequest",
    "RequestFinished",
    "RequestStatistics",
    "SamplingOptions",
    "ScheduleStatistics",
    "SpeculativeExecutor",
    "SpeculativeGenerationBackend",
    "SpeculativeGenerationVisitor",
    "SpeculativeScheduler",
    "TokensCommitted",
    "__version__",
    "load",
    "load_assistant",
]


def __getattr__(name: str) -> Any:
    if name in {"load", "load_assistant"}:
        from eredu.engine import load as loading  # noqa: PLC0415

        return getattr(loading, name)
    raise AttributeError(f"module 'eredu' has no attribute {name!r}")

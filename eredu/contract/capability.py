"""What a loaded model can do about multi-token prediction, as portable values with a stable JSON form.

Nothing here names a backend: the same value describes a checkpoint on Metal, CUDA and CPU.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from eredu.contract.errors import CapabilityError


class MtpCheckpointKind(StrEnum):
    """Where the proposals come from."""

    SEPARATE = "separate"
    """An assistant in a checkpoint of its own."""
    EMBEDDED = "embedded"
    """Prediction heads inside the target's checkpoint."""
    NONE = "none"
    """The request's own tokens: proposals need no checkpoint."""


class MtpState(StrEnum):
    """The three answers to "can this model be decoded with multi-token prediction?"."""

    UNAVAILABLE = "unavailable"
    READY = "ready"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True, slots=True)
class MtpCapability:
    """Capability of one loaded model. Build it with `unavailable`, `ready` or `unsupported`."""

    state: MtpState
    checkpoint: MtpCheckpointKind | None = None
    architecture: str | None = None

    def __post_init__(self) -> None:
        wanted = {
            MtpState.UNAVAILABLE: (False, False),
            MtpState.READY: (True, False),
            MtpState.UNSUPPORTED: (True, True),
        }[self.state]
        if (self.checkpoint is not None, self.architecture is not None) != wanted:
            raise CapabilityError(
                f"capability '{self.state}' was given checkpoint={self.checkpoint} and "
                f"architecture={self.architecture!r}; 'unavailable' carries neither, 'ready' a checkpoint kind, "
                "'unsupported' both"
            )

    @classmethod
    def unavailable(cls) -> MtpCapability:
        """No drafter and no head: plain decoding only."""
        return cls(MtpState.UNAVAILABLE)

    @classmethod
    def ready(cls, checkpoint: MtpCheckpointKind) -> MtpCapability:
        """Speculation works with a drafter of this kind."""
        return cls(MtpState.READY, checkpoint)

    @classmethod
    def unsupported(cls, checkpoint: MtpCheckpointKind, architecture: str) -> MtpCapability:
        """A drafter of this kind is there, but its architecture (a `model_type`) is not supported."""
        return cls(MtpState.UNSUPPORTED, checkpoint, architecture)

    @property
    def is_ready(self) -> bool:
        """Whether generation with multi-token prediction may be asked for."""
        return self.state is MtpState.READY

    def to_json(self) -> dict[str, str]:
        """The stable form: `{"state": …}` plus `checkpoint` and `architecture` where they exist."""
        fields = {"state": self.state.value, "checkpoint": self.checkpoint, "architecture": self.architecture}
        return {name: str(value) for name, value in fields.items() if value is not None}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> MtpCapability:
        """Inverse of `to_json`. Raises `CapabilityError` on anything else."""
        try:
            kind = value.get("checkpoint")
            return cls(
                MtpState(value["state"]),
                None if kind is None else MtpCheckpointKind(kind),
                value.get("architecture"),
            )
        except (KeyError, ValueError, AttributeError) as error:
            raise CapabilityError(f"{value!r} is not the JSON form of an MTP capability: {error}") from error

"""The ways of decoding that one benchmark compares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Engine(StrEnum):
    """Whose loop decodes."""

    EREDU = "eredu"
    MLX_LM = "mlx-lm"


@dataclass(frozen=True, slots=True)
class Setting:
    """One way of decoding.

    Attributes:
        engine: Whose loop.
        proposals: K; 0 is plain decoding.
        lookahead: Whether branches are drafted while verifications run; eredu only.
    """

    engine: Engine
    proposals: int = 0
    lookahead: bool = False

    @property
    def name(self) -> str:
        """Name in tables and JSON."""
        whose = "" if self.engine is Engine.EREDU else f"{self.engine} "
        how = "plain" if self.proposals == 0 else f"K={self.proposals}"
        return f"{whose}{how}{' lookahead' if self.lookahead else ''}"

    @property
    def reference(self) -> Setting:
        """The same with lookahead off, which is the reference setting."""
        return Setting(self.engine, self.proposals)


PLAIN = Setting(Engine.EREDU)
PEER_PLAIN = Setting(Engine.MLX_LM)


def settings(proposals: Sequence[int], *, peers: bool = False, lookahead: bool = True) -> tuple[Setting, ...]:
    """Plain, then for each K lookahead off and on; with `peers`, mlx-lm's plain and speculative decoding too.

    Without `lookahead` it is never on: prediction heads do not look ahead.
    """
    switches = (False, True) if lookahead else (False,)
    ours = [Setting(Engine.EREDU, count, switch) for count in proposals for switch in switches]
    theirs = [PEER_PLAIN, *(Setting(Engine.MLX_LM, count) for count in proposals)] if peers else []
    return (PLAIN, *ours, *theirs)

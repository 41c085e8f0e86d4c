"""The ways of decoding that one benchmark compares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Engine(StrEnum):
    """Whose loop decodes."""

    EREDU = "eredu"
    MLX_LM = "mlx-lm"
    MLX_VLM = "mlx-vlm"


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


def settings(proposals: Sequence[int], *, peers: bool = False, heads: bool = False) -> tuple[Setting, ...]:
    """Plain, then for each K lookahead off and on; with `peers`, what others have to set against them.

    That is mlx-lm's plain and speculative decoding. With `heads` the target's own heads propose: lookahead is never on,
    and mlx-lm, which has no heads, only decodes plainly, while mlx-vlm does both.
    """
    switches = (False,) if heads else (False, True)
    ours = [Setting(Engine.EREDU, count, switch) for count in proposals for switch in switches]
    theirs = [PEER_PLAIN]
    if heads:
        theirs += [Setting(Engine.MLX_VLM, count) for count in (0, *proposals)]
    else:
        theirs += [Setting(Engine.MLX_LM, count) for count in proposals]
    return (PLAIN, *ours, *(theirs if peers else ()))

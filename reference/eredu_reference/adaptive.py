"""When a request stops drafting branches: a count of resolved branches and planned lengths, and no clock.

Nothing here reads a proposal that may be drawn again at the same address, so the decision cannot bend the law.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Adaptive:
    """The switch of one request, decided at the end of each window of resolved branches.

    Attributes:
        window: Branches between two decisions; None never decides.
        enabled: Whether branches are drafted. Off is for good.
        resolved: Branches resolved in the present window.
        reused: Their tokens that started a next block.
        wasted: Tokens that they planned for and that served nothing.
    """

    window: int | None
    enabled: bool = True
    resolved: int = 0
    reused: int = 0
    wasted: int = 0


def observe_branch(adaptive: Adaptive, planned: int, *, promoted: bool, reused: int) -> Adaptive:
    """The switch after one more resolved branch that had planned for `planned` tokens."""
    if adaptive.window is None:
        return adaptive
    served = 1 + reused if promoted else 0
    after = replace(
        adaptive,
        resolved=adaptive.resolved + 1,
        reused=adaptive.reused + reused,
        wasted=adaptive.wasted + planned - served,
    )
    if after.resolved < adaptive.window:
        return after
    pays = after.reused > 0 and after.wasted <= after.reused
    return Adaptive(adaptive.window, enabled=adaptive.enabled and pays)

"""A fault planted in eredu itself: one seam, and the test of the suite that must notice.

These stand beside the faults of the reference for what a reference without scheduler, device and checkpoints cannot
break honestly.
"""

from __future__ import annotations

from dataclasses import dataclass

from eredu_conformance.checks.check import Kind
from eredu_conformance.faults.engine.seam import Seam


@dataclass(frozen=True, kw_only=True)
class EngineFault:
    """One wrong eredu.

    Attributes:
        name: What the engine does wrongly.
        rule: The rule of the spec that it breaks.
        source: The public report that it copies, or "constructed".
        story: How an engine comes to do this.
        seam: Where it sits, and what stands there instead.
        killer: The test that must fail, as pytest names it from the root of the repository.
        kind: The kind of check that sees it in the quick tier, if it is one of those that show what a kind can see.
    """

    name: str
    rule: str
    source: str = "constructed"
    story: str
    seam: Seam
    killer: str
    kind: Kind | None = None

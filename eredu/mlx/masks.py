"""Grammar states as mask rows on the device."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np

from eredu.contract.constraint import Constraint
from eredu.contract.errors import ConstraintError


# rule: constraints.mask-on-every-row
def mask_rows(constraints: list[Constraint]) -> mx.array:
    """Allowed ids before each state's token, shape (states, vocabulary), bool. A complete grammar allows everything.

    A row behind a complete grammar is never read, so it is left open. Raises `ConstraintError` where nothing is left.
    """
    masks: list[Any] = []
    for constraint in constraints:
        mask = constraint.mask()
        if constraint.complete:
            mask = np.ones_like(mask)
        elif not mask.any():
            # rule: verify.invalid-is-error
            raise ConstraintError("the grammar allows no token at all, yet it is not complete")
        masks.append(mask)
    return mx.array(np.stack(masks))

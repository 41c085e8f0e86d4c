"""What the reference refuses. Each message says what was given, what was expected and what to do."""

from __future__ import annotations


class ReferenceFailure(Exception):  # noqa: N818
    """Root of everything that the reference raises on purpose."""


class RequestError(ReferenceFailure, ValueError):
    """A request, or a pair of target and drafter, that cannot be decoded as asked."""


class CacheError(ReferenceFailure):
    """A cache was asked for a length it cannot give, or fed past its model's context."""


class AcceptanceError(ReferenceFailure):
    """Numbers that no correct engine produces: NaN, q(x) <= 0 for a drawn x, an empty residual."""


class ConstraintError(ReferenceFailure):
    """A grammar left no token, or was advanced by a token that it forbids."""


class Cancelled(Exception):  # noqa: N818
    """Raised by an observer to cancel the request at the point it observes."""

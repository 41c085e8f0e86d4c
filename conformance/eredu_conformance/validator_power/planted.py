"""Faults of the law planted in eredu's own sampling path on the device, for `eredu validate` itself to reject.

The catalogue's faults replace decisions of the reference engine. These are the same decisions where eredu takes them,
each at a seam of its own, with the command line under which they act and what the verdict must name.
"""

from __future__ import annotations

from dataclasses import dataclass

from eredu.drafters.proposal import propose
from eredu.mlx.acceptance import reject
from eredu_conformance.faults.engine import EngineFault
from eredu_conformance.faults.engine.sampling import Q_LEFT_OUT, RESIDUAL_OF_THE_TARGET
from eredu_conformance.faults.engine.seam import Seam
from eredu_conformance.faults.engine.syntax import Rewritten

_KILLER = (
    "conformance/tests/evidence/test_evidence_planted.py::test_validate_rejects_a_fault_in_the_sampling_path[{name}]"
)


@dataclass(frozen=True, kw_only=True)
class Planted:
    """A fault, and how validation meets it.

    Attributes:
        fault: The fault.
        looks_like: Bets of which the best must be one, as beginnings of their names.
        arguments: Words of the command line beside the checkpoint's.
    """

    fault: EngineFault
    looks_like: tuple[str, ...]
    arguments: tuple[str, ...] = ()


def _planted(name: str, story: str, seam: Seam, *looks_like: str, arguments: tuple[str, ...] = ()) -> Planted:
    killer = _KILLER.format(name=name)
    fault = EngineFault(name=name, rule="verify.same-law", story=story, seam=seam, killer=killer)
    return Planted(fault=fault, looks_like=looks_like, arguments=arguments)


PLANTED: tuple[Planted, ...] = (
    _planted(
        "lenient-on-the-device",
        "The ratio is multiplied by a half more, for a higher acceptance.",
        Rewritten(reject, "coins(K) * Q < P", "coins(K) * Q < 1.5 * P"),
        "acceptance x 1.25",
        "draft",
    ),
    _planted("ratio-without-q-on-the-device", "The coin is compared with p alone.", Q_LEFT_OUT, "ratio without q"),
    _planted(
        "residual-of-the-target-on-the-device",
        "A rejected proposal is replaced by a draw from p.",
        RESIDUAL_OF_THE_TARGET,
        "residual not subtracted",
    ),
    _planted(
        "bonus-from-the-draft-on-the-device",
        "The bonus is drawn from the last row of the drafter.",
        Rewritten(reject, "_verdict(A, R, Q, target_scores, K)", "_verdict(A, R, Q, draft_scores, K)"),
        "lag on bonuses",
        "draft on bonuses",
    ),
    _planted(
        "stale-row-on-the-device",
        "The bonus is drawn from the row of the last proposal.",
        Rewritten(reject, "_verdict(A, R, Q, P, K)", "_verdict(A, R, Q, P[:-1], K)"),
        "lag on bonuses",
    ),
    _planted(
        "raw-q-on-the-device",
        "Proposals are drawn at the request's temperature, and the ratio takes q from the raw logits.",
        Rewritten(propose, "append_proposal(O, B, T, S)", "append_proposal(O, B, T, logits)"),
        "residual not subtracted",
        "acceptance",
        "draft",
        arguments=("--temperature", "0.5"),
    ),
)
"""The main faults of the law."""

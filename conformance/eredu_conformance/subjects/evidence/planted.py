"""Faults of the law planted in eredu's own sampling path on the device, for `eredu validate` itself to reject.

The catalogue's faults replace decisions of the reference engine. These are the same decisions where eredu takes them,
as edits of one line each, with the command line under which they act and what the verdict must name.
"""

from __future__ import annotations

from dataclasses import dataclass

from eredu_conformance.faults.edits import EngineFault

_KILLER = (
    "conformance/tests/evidence/test_evidence_planted.py::test_validate_rejects_a_fault_in_the_sampling_path[{name}]"
)
_ACCEPTANCE = "mlx/acceptance.py"
_COMPARISON = "coins(coin_keys) * q_drawn < p_drawn"
_VERDICT = "return _verdict(accepted, residual, q_drawn, target_scores, final_keys)"


@dataclass(frozen=True, kw_only=True)
class Planted:
    """A fault, and how validation meets it.

    Attributes:
        fault: The edit.
        looks_like: Bets of which the best must be one, as beginnings of their names.
        arguments: Words of the command line beside the checkpoint's.
    """

    fault: EngineFault
    looks_like: tuple[str, ...]
    arguments: tuple[str, ...] = ()


def _planted(
    name: str, story: str, change: tuple[str, str, str], *looks_like: str, arguments: tuple[str, ...] = ()
) -> Planted:
    file, before, after = change
    fault = EngineFault(
        name=name,
        rule="verify.same-law",
        story=story,
        file=file,
        before=before,
        after=after,
        killer=_KILLER.format(name=name),
    )
    return Planted(fault=fault, looks_like=looks_like, arguments=arguments)


PLANTED: tuple[Planted, ...] = (
    _planted(
        "lenient-on-the-device",
        "The ratio is multiplied by a half more, for a higher acceptance.",
        (_ACCEPTANCE, _COMPARISON, "coins(coin_keys) * q_drawn < 1.5 * p_drawn"),
        "acceptance x 1.25",
        "draft",
    ),
    _planted(
        "ratio-without-q-on-the-device",
        "The coin is compared with p alone.",
        (_ACCEPTANCE, _COMPARISON, "coins(coin_keys) < p_drawn"),
        "ratio without q",
    ),
    _planted(
        "residual-of-the-target-on-the-device",
        "A rejected proposal is replaced by a draw from p.",
        (
            _ACCEPTANCE,
            "residual = _excess(_log_softmax(target_scores[row]), _log_softmax(draft_scores[row]))",
            "residual = mx.exp(_log_softmax(target_scores[row]))",
        ),
        "residual not subtracted",
    ),
    _planted(
        "bonus-from-the-draft-on-the-device",
        "The bonus is drawn from the last row of the drafter.",
        (_ACCEPTANCE, _VERDICT, _VERDICT.replace("target_scores", "draft_scores")),
        "lag on bonuses",
        "draft on bonuses",
    ),
    _planted(
        "stale-row-on-the-device",
        "The bonus is drawn from the row of the last proposal.",
        (_ACCEPTANCE, _VERDICT, _VERDICT.replace("target_scores", "target_scores[:-1]")),
        "lag on bonuses",
    ),
    _planted(
        "raw-q-on-the-device",
        "Proposals are drawn at the request's temperature, and the ratio takes q from the raw logits.",
        ("drafters/proposal.py", "block.scores.append(scores)", "block.scores.append(logits)"),
        "residual not subtracted",
        "acceptance",
        "draft",
        arguments=("--temperature", "0.5"),
    ),
)
"""The main faults of the law."""

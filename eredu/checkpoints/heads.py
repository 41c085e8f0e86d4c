"""Prediction heads inside a checkpoint: what its config claims, and which tensors are really there.

Configs lie: converted checkpoints often keep the claim and drop the tensors. A claim without any tensor is no
capability, a part of the tensors is an error, and only the whole set counts. Inspection and loading decide here.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from eredu.checkpoints.config import ModelConfig
from eredu.checkpoints.family import Family, HeadClaim
from eredu.checkpoints.head_files import missing_tensors
from eredu.contract.capability import MtpCapability, MtpCheckpointKind
from eredu.contract.errors import CheckpointError
from eredu.contract.options import MAX_PROPOSALS
from eredu.families.registry import RUN_HEADS


@dataclass(frozen=True, slots=True)
class HeadReport:
    """What a checkpoint has to offer for multi-token prediction.

    Attributes:
        claimed: Heads (prediction depths) that the metadata claim.
        tensors: Head tensors that are there.
        stated_depth: Proposals a round that the metadata say they may be iterated to, 0 where they say nothing.
        capability: What follows.
        reason: Why, in one sentence.
    """

    claimed: int
    tensors: int
    capability: MtpCapability
    reason: str
    stated_depth: int = 0

    @property
    def expected(self) -> bool:
        """Whether there should be heads to use: claimed, stored, or made for another checkpoint."""
        return bool(self.claimed or self.tensors)

    @property
    def usable_depth(self) -> int:
        """Proposals a round: as stated, else each head one; a probe shows whether iterating them is worth more."""
        return max(self.claimed, self.stated_depth) if self.capability.is_ready else 0

    def to_json(self) -> dict[str, Any]:
        """The stable form."""
        return {
            "claimed": self.claimed,
            "tensors": self.tensors,
            "usable_depth": self.usable_depth,
            "capability": self.capability.to_json(),
            "reason": self.reason,
        }


def decide_heads(
    config: ModelConfig, family: Family | None, claim: HeadClaim | None, names: Collection[str], unread: str | None
) -> HeadReport:
    """Compare the claim of a config.json with the published names of the head tensors that are there.

    `unread` says why eredu does not read the checkpoint's weights; their names then tell nothing.

    Raises `CheckpointError` where only a part of the claimed tensors is there.
    """
    name = config.model_type
    if family is not None and name in family.assistants:
        return assistant_report(name, f"an assistant of the family {name}, which eredu does not run yet")
    if claim is None:
        return _nothing(f"the family {name} has no prediction heads; an independent draft model can propose for it")
    if unread is not None and (names or claim.stated) and claim.count:
        unsupported = MtpCapability.unsupported(MtpCheckpointKind.EMBEDDED, name)
        return HeadReport(claim.count, len(names), unsupported, unread)
    missing = missing_tensors(names, claim)
    if claim.count and names and missing:
        raise CheckpointError(
            f"{config.path} claims {_heads(claim.count)}, and of their tensors {len(missing)} are missing, "
            f"such as {missing[0]}: the checkpoint is incomplete. Fetch all its weight files, or a conversion that "
            "keeps the heads"
        )
    claimed = claim.count if claim.stated or names else 0
    report = replace(
        judge_claim(name, claimed, len(names), unrun=not_run(name, family)), stated_depth=stated_depth(config)
    )
    broken = broken_assumption(config, family)
    if broken is None or not report.capability.is_ready:
        return report
    return replace(report, capability=MtpCapability.unsupported(MtpCheckpointKind.EMBEDDED, name), reason=broken)


def not_run(name: str, family: Family | None) -> str | None:
    """Why eredu runs no heads of a family, and whose it does; None where it runs them."""
    if family is not None and family.heads is not None and family.heads.runs:
        return None
    return f"{name} is published with heads that eredu does not run; it runs those of {', '.join(RUN_HEADS)}"


def judge_claim(family: str, claimed: int, tensors: int, *, unrun: str | None) -> HeadReport:
    """What a claim and the number of head tensors, found whole, come to.

    Args:
        family: Name of the family, as the file has it.
        claimed: Heads that the file claims.
        tensors: Head tensors that it holds.
        unrun: Why eredu does not run the family's heads from such a file; None where it does.
    """
    if not claimed:
        found = (
            f" although it holds {tensors} tensors of one"
            if tensors
            else " and holds none; where its original has one, give a directory that holds it with --head"
        )
        return _nothing(f"the checkpoint claims no prediction head{found}", tensors=tensors)
    if not tensors:
        advice = "give a directory that holds them with --head (head=… in the library), such as the original's folder"
        return _nothing(
            f"the checkpoint claims {_heads(claimed)} and ships none of their tensors, as many converted checkpoints "
            f"do; {advice if unrun is None else unrun}",
            claimed=claimed,
        )
    there = f"{_heads(claimed)} {'is' if claimed == 1 else 'are'} there"
    if unrun is None:
        return HeadReport(claimed, tensors, MtpCapability.ready(MtpCheckpointKind.EMBEDDED), there)
    unsupported = MtpCapability.unsupported(MtpCheckpointKind.EMBEDDED, family)
    return HeadReport(claimed, tensors, unsupported, f"{there}: {unrun}")


def assistant_report(family: str, reason: str) -> HeadReport:
    """An assistant has no heads; it is to be one, and eredu does not run it yet."""
    return HeadReport(0, 0, MtpCapability.unsupported(MtpCheckpointKind.SEPARATE, family), reason)


def stated_depth(config: ModelConfig) -> int:
    """Proposals a round that a config.json states under `max_proposals`, 0 where it states none."""
    return config.count("max_proposals", 0, most=MAX_PROPOSALS)


def broken_assumption(config: ModelConfig, family: Family | None) -> str | None:
    """The first setting that the family's mlx-lm class would pass over, in a sentence; None where there is none.

    mlx-lm reads the keys that it knows and passes over the rest, so such a checkpoint would load and compute something
    else.
    """
    for key, expected in ({} if family is None else family.assumed).items():
        given = config.get(key)
        if given is not None and given != expected:
            return (
                f"{config.path} sets {key} to {given!r}; mlx-lm's {config.model_type} computes {expected!r} whatever "
                "the config says, so it would be another model. Use an engine that follows the setting"
            )
    return None


def _heads(count: int) -> str:
    return f"{count} prediction {'head' if count == 1 else 'heads'}"


def _nothing(reason: str, *, claimed: int = 0, tensors: int = 0) -> HeadReport:
    return HeadReport(claimed, tensors, MtpCapability.unavailable(), reason)

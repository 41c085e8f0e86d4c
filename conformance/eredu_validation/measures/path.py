"""The path: greedy and coupled decoding against plain decoding with the same seeds, token for token.

Equality is promised for equal logits, so every divergence is looked into: see `divergence.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from eredu.contract.options import AcceptanceRule, GenerationOptions
from eredu.prepared import PreparedRequest
from eredu_validation.measures.divergence import Divergence, look_into
from eredu_validation.measures.emissions import request_seed
from eredu_validation.measures.prompts import EncodedPrompt
from eredu_validation.measures.subject import Subject

SLACK = 4.0
"""Near-ties may be this many times closer than the audited noise: both candidates move, and audits see few rows."""


@dataclass(frozen=True, kw_only=True)
class PathReport:
    """All comparisons.

    Attributes:
        outputs: Outputs compared.
        tokens: Their tokens.
        noise: Largest margin of a near-tie.
        divergences: Those that differ.
    """

    outputs: int
    tokens: int
    noise: float
    divergences: tuple[Divergence, ...]

    @property
    def violations(self) -> tuple[Divergence, ...]:
        """Divergences that no noise explains."""
        return tuple(each for each in self.divergences if not each.near_tie)

    @property
    def sentence(self) -> str:
        """In words."""
        same = self.outputs - len(self.divergences)
        text = f"{same} of {self.outputs} greedy and coupled outputs are plain decoding's ({self.tokens:,} tokens)"
        if self.violations:
            first = self.violations[0]
            return (
                f"{text}; {len(self.violations)} differ as no noise explains, first '{first.prompt}' ({first.rule}, "
                f"K = {first.proposals}) at token {first.position}"
                + ("" if first.margin is None else f" with a margin of {first.margin:.2g}")
                + (", and elsewhere with another K" if first.moves else "")
            )
        return text + (f"; {len(self.divergences)} differ at near-ties" if self.divergences else "")

    def to_json(self) -> dict[str, Any]:
        """The stable form."""
        return {
            "text": self.sentence,
            "outputs": self.outputs,
            "tokens": self.tokens,
            "noise": self.noise,
            "violations": len(self.violations),
            "divergences": [asdict(each) for each in self.divergences],
        }


def check_path(
    subject: Subject, prompts: Sequence[EncodedPrompt], *, noise: float, seed: int, max_tokens: int, models: str
) -> PathReport:
    """Compare under greedy and coupled decoding.

    Args:
        subject: What decodes.
        prompts: Its prompts.
        noise: Audited largest difference of a logit; 0 where rows are bitwise equal.
        seed: Root of the coupled requests.
        max_tokens: Tokens of an output.
        models: Arguments of `eredu generate` that name the models.
    """
    allowed, outputs, tokens, found = SLACK * noise, 0, 0, []
    sampling = {
        "greedy": replace(subject.options.sampling, temperature=0.0),
        "coupled": subject.options.sampling,
    }
    for rule, settings in sampling.items():
        options = replace(
            subject.options, sampling=settings, acceptance=AcceptanceRule.COUPLED, max_tokens=max_tokens, seed=seed
        )
        plain = _decode(subject, prompts, options, seed, plain=True)
        drafted = _decode(subject, prompts, options, seed, plain=False)
        for index, (prompt, expected, output) in enumerate(zip(prompts, plain, drafted, strict=True)):
            outputs, tokens = outputs + 1, tokens + len(expected)
            if expected != output:
                own = replace(options, seed=request_seed(seed, 0, index))
                found.append(look_into(subject, prompt, (expected, output), own, rule, allowed, models))
    return PathReport(outputs=outputs, tokens=tokens, noise=allowed, divergences=tuple(found))


def _decode(
    subject: Subject, prompts: Sequence[EncodedPrompt], options: GenerationOptions, seed: int, *, plain: bool
) -> list[tuple[int, ...]]:
    requests = [
        PreparedRequest(prompt=prompt.tokens, options=replace(options, seed=request_seed(seed, 0, index)))
        for index, prompt in enumerate(prompts)
    ]
    return [result.tokens for result in subject.decode(requests, plain=plain).results]

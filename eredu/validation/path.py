"""The path: greedy and coupled decoding against plain decoding with the same seeds, token for token.

Equality is promised for equal logits, so a divergence is looked into: where plain decoding's own choice was as close as
the audited noise, it is a near-tie; anything else is a violation.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from eredu.loaded import PreparedRequest
from eredu.mlx.draws import gumbels, key_rows
from eredu.mlx.rows import process_rows
from eredu.options import AcceptanceRule, GenerationOptions, SamplingOptions
from eredu.randomness import RequestRandomness, Role
from eredu.validation.emissions import request_seed
from eredu.validation.forcing import Text, read_target
from eredu.validation.prompts import EncodedPrompt
from eredu.validation.subject import Subject

SLACK = 4.0
"""Near-ties may be this many times closer than the audited noise: both candidates move, and audits see few rows."""


@dataclass(frozen=True, kw_only=True)
class Divergence:
    """Where one output left plain decoding's.

    Attributes:
        rule: `greedy` or `coupled`.
        proposals: K.
        prompt: Name of the prompt.
        seed: Seed of the request.
        position: Output position of the first different token.
        plain: Token of plain decoding; None where it had ended.
        speculative: Token with speculation; None where it had ended.
        margin: Score of plain decoding's token over the other one, teacher-forced; None where one had ended.
        near_tie: Whether the margin is within the noise.
        replay: Command that decodes it again, or empty where the prompt is no text.
    """

    rule: str
    proposals: int
    prompt: str
    seed: int
    position: int
    plain: int | None
    speculative: int | None
    margin: float | None
    near_tie: bool
    replay: str


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
                f"{text}; {len(self.violations)} differ beyond the noise, first '{first.prompt}' ({first.rule}, "
                f"K = {first.proposals}) at token {first.position}"
                + ("" if first.margin is None else f" with a margin of {first.margin:.2g}")
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
    """Compare under greedy and coupled decoding, with the K of the subject and with 1.

    Args:
        subject: What decodes.
        prompts: Its prompts.
        noise: Audited largest difference of a logit.
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
                found.append(_look_into(subject, prompt, (expected, output), own, rule, allowed, models))
    return PathReport(outputs=outputs, tokens=tokens, noise=allowed, divergences=tuple(found))


def _decode(
    subject: Subject, prompts: Sequence[EncodedPrompt], options: GenerationOptions, seed: int, *, plain: bool
) -> list[tuple[int, ...]]:
    requests = [
        PreparedRequest(prompt=prompt.tokens, options=replace(options, seed=request_seed(seed, 0, index)))
        for index, prompt in enumerate(prompts)
    ]
    return [result.tokens for result in subject.decode(requests, plain=plain).results]


def _look_into(
    subject: Subject,
    prompt: EncodedPrompt,
    outputs: tuple[tuple[int, ...], tuple[int, ...]],
    options: GenerationOptions,
    rule: str,
    allowed: float,
    models: str,
) -> Divergence:
    expected, output = outputs
    pairs = zip(expected, output, strict=False)
    position = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(expected), len(output)))
    left, right = (each[position] if position < len(each) else None for each in outputs)
    margin: float | None = None
    if left is not None and right is not None:
        scores = _scores(subject, Text(prompt.tokens, expected[: position + 1]), options)
        margin = abs(float(scores[left] - scores[right]))
    # Scores are logits over the temperature, and so is their noise.
    scale = 1.0 if options.sampling.is_greedy else options.sampling.temperature
    return Divergence(
        rule=rule,
        proposals=options.max_proposals,
        prompt=prompt.name,
        seed=options.seed or 0,
        position=position,
        plain=left,
        speculative=right,
        margin=margin,
        near_tie=margin is not None and margin <= allowed / scale,
        replay=_replay(prompt, options, rule, models),
    )


def _scores(subject: Subject, text: Text, options: GenerationOptions) -> NDArray[np.float64]:
    """What the token was the argmax of, shape (vocabulary,): logits, or log p and noise."""
    sampling: SamplingOptions = options.sampling
    logits = read_target(subject.target, text, prompts=subject.prompts).logits
    history = text.history(logits.shape[-1]) if sampling.has_penalties else None
    scores = process_rows(logits, sampling, history=history)[-1:]
    if not sampling.is_greedy:
        position = len(text.output) - 1
        key = RequestRandomness.from_seed(options.seed or 0).key(Role.NOISE, position)
        scores = scores + gumbels(key_rows([key]), scores.shape[-1])
    values: NDArray[np.float64] = np.array(scores[0].astype(mx.float32)).astype(np.float64)
    return values


def _replay(prompt: EncodedPrompt, options: GenerationOptions, rule: str, models: str) -> str:
    if not prompt.replay:
        return ""
    sampling = options.sampling
    settings = (
        f"--acceptance coupled --seed {options.seed} --temperature {0 if rule == 'greedy' else sampling.temperature}"
    )
    filters = f"--top-k {sampling.top_k} --top-p {sampling.top_p} --min-p {sampling.min_p}"
    length = f"-k {options.max_proposals} --max-tokens {options.max_tokens}"
    return f"eredu generate {models} {settings} {filters} {length} {shlex.join(prompt.replay)}"

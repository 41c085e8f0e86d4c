"""Where speculation leaves plain decoding, and whether the noise of the numerics explains it.

A divergence is a near-tie if all of this holds, and a violation otherwise:

- the backend's K-wide forwards are not bitwise those of single steps: else nothing excuses even an exact tie;
- plain decoding's choice led by less than the audited noise there;
- it does not move with K. That the two best are close is a matter of the text alone, so decoding again with another K
  from the same seed leaves plain decoding at the same token, or not at all. Outputs are long enough for a second tie,
  so another K may be the first to fall over that one, but only within the noise, and some K must confirm the first. A
  fault of rounds goes by where rounds begin and end, and these move with K.

Heads that make a single proposal have no other K, and the margin alone decides.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from eredu.contract.options import GenerationOptions, SamplingOptions
from eredu.contract.randomness import RequestRandomness, Role
from eredu.prepared import PreparedRequest
from eredu_validation.measures.inside import gumbels, key_rows, process_rows
from eredu_validation.measures.plain_rows import Text, read_target
from eredu_validation.measures.prompts import EncodedPrompt
from eredu_validation.measures.subject import Subject

OTHERS = 2
"""Other K that a divergence is decoded again with."""


@dataclass(frozen=True, kw_only=True)
class OtherDepth:
    """The same output decoded with another K.

    Attributes:
        proposals: K.
        position: Where it leaves plain decoding; None if it does not.
        margin: As in `Divergence`.
    """

    proposals: int
    position: int | None
    margin: float | None


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
        others: What other K do.
        near_tie: Whether noise explains it: see the head of this file.
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
    others: tuple[OtherDepth, ...]
    near_tie: bool
    replay: str

    @property
    def moves(self) -> bool:
        """Whether other K leave plain decoding elsewhere, and none at the same token or not at all."""
        return bool(self.others) and not any(other.position in {None, self.position} for other in self.others)


def look_into(
    subject: Subject,
    prompt: EncodedPrompt,
    outputs: tuple[tuple[int, ...], tuple[int, ...]],
    options: GenerationOptions,
    rule: str,
    allowed: float,
    models: str,
) -> Divergence:
    """Classify one divergence.

    Args:
        subject: What decodes.
        prompt: The prompt.
        outputs: Plain decoding's output and the other one.
        options: Of the request, its seed included.
        rule: `greedy` or `coupled`.
        allowed: Largest difference of two logits that noise explains; 0 where rows are bitwise equal.
        models: Arguments of `eredu generate` that name the models.
    """
    expected, output = outputs
    position = _parting(expected, output)
    left, right = (each[position] if position < len(each) else None for each in outputs)
    margin, others = _margin(subject, prompt, outputs, options), []
    for depth in other_depths(subject):
        request = PreparedRequest(prompt=prompt.tokens, options=replace(options, max_proposals=depth))
        again = subject.decode([request]).results[0].tokens
        apart = None if again == expected else _parting(expected, again)
        gap = None if again == expected else _margin(subject, prompt, (expected, again), options)
        others.append(OtherDepth(proposals=depth, position=apart, margin=gap))
    # Scores are logits over the temperature, and so is their noise.
    scale = 1.0 if options.sampling.is_greedy else options.sampling.temperature
    found = Divergence(
        rule=rule,
        proposals=options.max_proposals,
        prompt=prompt.name,
        seed=options.seed or 0,
        position=position,
        plain=left,
        speculative=right,
        margin=margin,
        others=tuple(others),
        near_tie=False,
        replay=_replay(prompt, options, rule, models),
    )
    return replace(found, near_tie=noise_explains(found, allowed=allowed / scale))


def noise_explains(found: Divergence, *, allowed: float) -> bool:
    """Whether a divergence is a near-tie; `allowed` is the largest margin of one, 0 where rows are bitwise equal."""
    margins = [found.margin, *(other.margin for other in found.others if other.position is not None)]
    within = all(margin is not None and margin <= allowed for margin in margins)
    return allowed > 0 and within and not found.moves


def other_depths(subject: Subject) -> list[int]:
    """K beside the subject's own that its drafter can do."""
    own = subject.depth
    wanted = [depth for depth in (1, own + 1, own - 1, own + 2) if depth not in {0, own}]
    can = [depth for depth in dict.fromkeys(wanted) if subject.with_options(max_proposals=depth).depth == depth]
    return can[:OTHERS]


def _parting(expected: tuple[int, ...], output: tuple[int, ...]) -> int:
    """First output position at which two outputs differ."""
    pairs = zip(expected, output, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(expected), len(output)))


def _margin(
    subject: Subject,
    prompt: EncodedPrompt,
    outputs: tuple[tuple[int, ...], tuple[int, ...]],
    options: GenerationOptions,
) -> float | None:
    """Score of plain decoding's token over the other one where they part; None where one output has ended."""
    expected, output = outputs
    position = _parting(expected, output)
    if position >= min(len(expected), len(output)):
        return None
    scores = _scores(subject, Text(prompt.tokens, expected[: position + 1]), options)
    return abs(float(scores[expected[position]] - scores[output[position]]))


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

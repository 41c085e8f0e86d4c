"""The probe of a checkpoint's heads: their wiring, how deep they may be iterated, and whether they were read rightly.

Published sources disagree on wirings, and a wrong one still runs: it only proposes worse. So heads whose checkpoint
states no wiring are tried under each candidate on a short text, and the family's default is left only for one that is
clearly better. What was found is remembered in the cache folder.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from eredu.checkpoints.names import cache_directory
from eredu.contract.errors import CapabilityError, CheckpointError, JsonError, OutputError, TokenizerError
from eredu.engine.alignment import FollowedRows, TargetRows, follow
from eredu.engine.checkpoint import LoadedCheckpoint
from eredu.families.filling import parameters_of
from eredu.families.prediction_heads import PredictionHeads
from eredu.files.aside_file import write_json
from eredu.files.json_reading import read_json
from eredu.mlx.models import FittedModel
from eredu.text.tokenizer import Tokenizer

QUESTION = "Tell me what the keeper of the lighthouse does on a winter morning."
ANSWER = (
    "Every morning the keeper of the lighthouse walks down the long stairs, opens the heavy door, and looks at the "
    "sea. If the water is calm, she makes a pot of tea and writes the weather into her book: the wind, the waves, and "
    "the ships that passed in the night. If there is a storm, she stays inside, cleans the glass of the lamp, and "
    "waits. In the winter the days are short, so the lamp has to burn for sixteen hours. She likes the quiet, and she "
    "likes to read. Once a week a small boat brings bread, milk and the letters from her brother, who lives in the "
    "city and asks her every time when she will come home. She always gives the same answer: when the last ship is "
    "safe in the harbour, and not one day before."
)
DEPTHS = 8
"""Depths that are measured at the most."""
CLEARLY = 4.0
"""Standard errors of the mean paired difference that make one reading clearly better than another."""
MARGIN = 0.02
"""Acceptance that files must lose by their reading before they are refused."""
FOLLOWS = 0.2
"""Part of the tokens on which a head that follows its target at all agrees with it; chance alone does not reach it."""
KEEPS = 0.5
"""An iterated proposal is worth making while it keeps this part of the first one's acceptance."""
SUSPECT = 0.25
"""Acceptance below which a head may be misread in a way that hides its wiring too."""
LEAST_ROWS = 32
"""Tokens that a probe predicts at least."""
NORM_ROWS = 96
"""Tokens that norms alone are tried on, at the most: misread ones cost far more than chance."""
AS_READ = "as it is read"
VERSION = 1


@dataclass(frozen=True)
class HeadProbe:
    """What a probe found.

    Attributes:
        tokenizer: SHA-256 of the tokenizer.
        rows: Tokens that were predicted.
        wirings: Mean acceptance at the first depths, two where heads iterate, by wiring; the family's default first.
        chosen: The wiring that fits best: the default, or one that is clearly better.
        stated: The wiring that the checkpoint states, which is run whatever fits; None where it states none.
        depths: Mean acceptance under it by depth.
        usable: Proposals a round that are worth making.
        misreadings: Mean acceptance at the first depth if the files had been misread, in words.
    """

    tokenizer: str
    rows: int
    wirings: dict[str, tuple[float, ...]]
    chosen: str
    stated: str | None
    depths: tuple[float, ...]
    usable: int
    misreadings: dict[str, float]

    def to_json(self) -> dict[str, Any]:
        """The stable form."""
        return {"version": VERSION, **asdict(self)}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> HeadProbe:
        """Inverse of `to_json`. Raises `CapabilityError` on anything else."""
        try:
            if value["version"] != VERSION:
                raise CapabilityError(f"the probe is of version {value['version']}; expected {VERSION}")
            return cls(
                str(value["tokenizer"]),
                int(value["rows"]),
                {str(name): tuple(map(float, accept)) for name, accept in value["wirings"].items()},
                str(value["chosen"]),
                None if value["stated"] is None else str(value["stated"]),
                tuple(map(float, value["depths"])),
                int(value["usable"]),
                {str(name): float(accept) for name, accept in value["misreadings"].items()},
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CapabilityError(f"{value!r} is not the JSON form of a probe: {error}") from error

    def apply(self, heads: PredictionHeads) -> PredictionHeads:
        """The heads under the chosen wiring, capped at the usable depth."""
        return heads.variants()[self.chosen].capped(self.usable)


def settle_heads(checkpoint: LoadedCheckpoint, target: FittedModel) -> PredictionHeads | None:
    """A loaded checkpoint's heads under the wiring that fits them: stated, remembered from a probe, or probed now.

    Without a tokenizer, or with one that cannot write the text, there is nothing to probe with, and heads keep the
    family's default.

    Raises `CheckpointError` as `probe_heads` does.
    """
    heads, tokenizer = checkpoint.heads, checkpoint.tokenizer
    if heads is None or heads.traits.settled or tokenizer is None:
        return heads
    if probe_text(tokenizer, target.context) is None:
        return heads
    path = probe_path(heads, target, tokenizer)
    found = _recall(path)
    if found is None or found.chosen not in heads.variants():
        found = probe_heads(heads, target, tokenizer)
        remember(found, heads, target, tokenizer)
    return found.apply(heads)


def probe_heads(heads: PredictionHeads, target: FittedModel, tokenizer: Tokenizer) -> HeadProbe:
    """Probe heads on the built-in text.

    Raises `CheckpointError` where they follow their target clearly better as if the files had been misread: norms that
    were shifted twice or never before they were stored. Raises `CapabilityError` where there is no text to probe with.
    """
    text = probe_text(tokenizer, target.context)
    if text is None:
        raise CapabilityError("the tokenizer and the context leave no text to probe prediction heads with")
    rows = TargetRows.read(target, *text)
    iterates = heads.traits.iterable
    variants = heads.variants()
    followed = _follow_variants(variants, rows, 2 if iterates or heads.traits.stages > 1 else 1)
    chosen = _choose(followed)
    depth = DEPTHS if iterates else min(DEPTHS, heads.traits.stages)
    depths = tuple(float(each.accept.mean()) for each in follow(variants[chosen], rows, depth))
    misread = _misread(heads, variants[chosen], rows, suspicious=depths[0] < SUSPECT)
    _refuse_misread(misread, followed[chosen][0])
    return HeadProbe(
        tokenizer=tokenizer.fingerprint.digest,
        rows=len(followed[chosen][0].accept),
        wirings={name: tuple(float(each.accept.mean()) for each in found) for name, found in followed.items()},
        chosen=chosen,
        stated=next(iter(variants)) if heads.traits.settled else None,
        depths=depths,
        usable=_usable(depths, heads.traits.stages),
        misreadings={name: float(found.accept.mean()) for name, found in misread.items()},
    )


def require_norms(heads: PredictionHeads, target: FittedModel, tokenizer: Tokenizer) -> dict[str, float]:
    """Mean acceptance of the first proposal as the heads are read, and as if their files had been misread.

    Heads whose wiring is stated are loaded without a probe, and this is the part of it that could still refuse them.
    Empty where there is no text to try them on, or nothing to misread.

    Raises `CheckpointError` as `probe_heads` does.
    """
    text, others = probe_text(tokenizer, target.context), heads.misreadings()
    if text is None or not others:
        return {}
    tokens, first = text
    rows = TargetRows.read(target, tokens[: first + NORM_ROWS], first)
    found, misread = follow(heads, rows, 1)[0], {name: follow(other, rows, 1)[0] for name, other in others.items()}
    _refuse_misread(misread, found)
    return {name: float(each.accept.mean()) for name, each in {AS_READ: found, **misread}.items()}


def _follow_variants(
    variants: Mapping[str, PredictionHeads], rows: TargetRows, depth: int
) -> dict[str, list[FollowedRows]]:
    """Every variant at the first depth, and those that could still be the best at the next ones too."""
    first = {name: follow(variant, rows, 1) for name, variant in variants.items()}
    best = max(first.values(), key=lambda found: found[0].accept.mean())[0].accept
    return {
        name: follow(variants[name], rows, depth) if depth > 1 and not clearly_better(best, found[0].accept) else found
        for name, found in first.items()
    }


def _choose(followed: Mapping[str, list[FollowedRows]]) -> str:
    """The first variant, unless another is clearly better: at the first depth, or over all that both were tried at."""
    default, deepest = next(iter(followed)), max(len(found) for found in followed.values())
    scores = {name: _score(found, deepest) for name, found in followed.items() if len(found) == deepest}
    best = max(scores, key=lambda name: scores[name].mean())
    return best if default not in scores or clearly_better(scores[best], scores[default]) else default


def _misread(
    heads: PredictionHeads, chosen: PredictionHeads, rows: TargetRows, *, suspicious: bool
) -> dict[str, FollowedRows]:
    """How the heads would follow had their files been misread; of all wirings if they follow badly as they are read."""
    found: dict[str, FollowedRows] = {}
    for name, other in (heads if suspicious else chosen).misreadings().items():
        tried = other.variants().values() if suspicious else [other]
        found[name] = max((follow(each, rows, 1)[0] for each in tried), key=lambda each: each.accept.mean())
    return found


def probe_path(heads: PredictionHeads, target: FittedModel, tokenizer: Tokenizer) -> Path:
    """Where a probe is remembered: its name is a hash over the tokenizer, and over the first bytes of each weight.

    The fingerprint of the tokenizer comes first, so that the probes of one tokenizer stand together.
    """
    identity = hashlib.sha256(b"eredu.head-probe.v1\0")
    weights = [(name, array) for module in heads.modules for name, array in sorted(parameters_of(module).items())]
    sample = target.model(mx.array([[0, 1]], dtype=mx.uint32))
    for name, array in [*weights, ("target", sample)]:
        start = array.reshape(-1)[:512]
        identity.update(f"{name} {array.shape} {array.dtype}".encode())
        identity.update(np.array(start.astype(mx.float32)).tobytes())
    name = f"{tokenizer.fingerprint.digest[:16]}-{identity.hexdigest()[:32]}.json"
    return cache_directory() / "probes" / name


def remember(found: HeadProbe, heads: PredictionHeads, target: FittedModel, tokenizer: Tokenizer) -> None:
    """Keep a probe for the next load. A folder that cannot be written costs another probe, and changes no result."""
    path = probe_path(heads, target, tokenizer)
    with contextlib.suppress(OSError, OutputError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, found.to_json())


def _recall(path: Path) -> HeadProbe | None:
    try:
        return HeadProbe.from_json(read_json(path))
    except (JsonError, CapabilityError):
        return None


def probe_text(tokenizer: Tokenizer, context: int) -> tuple[list[int], int] | None:
    """Ids of the text, as one chat turn and its reply where there is a template, and where the reply begins.

    None where the tokenizer cannot write it, or writes too little of it within the context.
    """
    chat = tokenizer.chat_template is not None
    try:
        answer = tokenizer.encode(ANSWER, add_special_tokens=not chat)
        question = tokenizer.apply_chat([{"role": "user", "content": QUESTION}]) if chat else ()
    except TokenizerError:
        return None
    tokens, first = [*question, *answer][:context], max(1, len(question))
    return (tokens, first) if len(tokens) - first >= LEAST_ROWS else None


def _score(followed: list[FollowedRows], depth: int) -> NDArray[np.float64]:
    """Acceptance of each token, summed over the first depths."""
    count = min(len(each.accept) for each in followed[:depth])
    total: NDArray[np.float64] = np.sum([each.accept[-count:] for each in followed[:depth]], axis=0)
    return total


def clearly_better(one: NDArray[np.float64], other: NDArray[np.float64], margin: float = 0.0) -> bool:
    """Whether paired measures are higher by a margin, and by more than chance makes them."""
    gain = one - other
    error = gain.std() / max(1, len(gain)) ** 0.5
    return bool(gain.mean() > margin and gain.mean() > CLEARLY * error)


def _refuse_misread(misread: dict[str, FollowedRows], found: FollowedRows) -> None:
    """Refuse what follows clearly better when read otherwise.

    A flat head that agrees with nothing overlaps with everything, so the other reading must also agree more, and with
    more than chance does.
    """
    for name, other in misread.items():
        follows = other.agrees.mean() > max(FOLLOWS, found.agrees.mean())
        if follows and clearly_better(other.accept, found.accept, MARGIN):
            raise CheckpointError(
                f"the prediction head follows its target with acceptance {found.accept.mean():.2f} as its files are "
                f"read, and with {other.accept.mean():.2f} with {name}: its norms were shifted twice, or never, when "
                "the checkpoint was converted. Convert the original again, or decode plainly (--no-mtp)"
            )


def _usable(depths: tuple[float, ...], stages: int) -> int:
    worth = next((i for i, accept in enumerate(depths) if accept < KEEPS * depths[0]), len(depths))
    return max(stages, worth)

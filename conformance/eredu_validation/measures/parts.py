"""The parts of a validation that draw nothing from the law: measured once, before the evidence, and kept beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eredu.contract.errors import EvidenceError
from eredu.files.aside_file import make_folder, write_json
from eredu.files.json_reading import read_json
from eredu_validation.evidence import SubjectIdentity
from eredu_validation.foreign.answers import LEFT_OUT
from eredu_validation.measures.benefit import measure_benefit
from eredu_validation.measures.numerics import audit_numerics
from eredu_validation.measures.path import check_path
from eredu_validation.measures.prompts import EncodedPrompt
from eredu_validation.measures.state import check_state
from eredu_validation.measures.static_checks import inspect_subject
from eredu_validation.measures.subject import Subject

PARTS = ("subject", "static", "numerics", "state", "path", "benefit")
"""In the order in which they are measured; `subject` is told where it is another engine."""
OPTIONAL = PARTS[2:]
"""Those that may be left out."""
PARTS_NAME = "parts.json"
"""Their file within the folder of a validation."""
SAMPLED = 3
"""Prompts that outputs are compared and timed on: the shortest."""
COMPARED = 20
"""Tokens of an output that is compared with plain decoding's, at the most."""
TIMED = 32
"""Tokens of an output whose speed is measured, at the most."""
TOLERANCES = {"float32": 1e-5}
"""Tolerance where the numerics are not audited, by the dtype of the logits; any other type has `COARSE`."""
COARSE = 2e-3


@dataclass(frozen=True)
class Parts:
    """What was measured.

    Attributes:
        found: Each part as JSON, by its name.
    """

    found: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def tolerance(self) -> float | None:
        """The audited tolerance, if the numerics were audited."""
        return self.found["numerics"]["tolerance"] if "numerics" in self.found else None

    @property
    def violations(self) -> tuple[str, ...]:
        """Sentences of the parts that found a violation."""
        return tuple(part["text"] for part in self.found.values() if part.get("violations", 0))

    def write(self, place: Path, subject: SubjectIdentity) -> None:
        """Keep them in a folder, with whom they are about; whoever interrupts this finds the old ones or these."""
        make_folder(place)
        write_json(place / PARTS_NAME, {"subject": subject.record(), "parts": self.found})

    @classmethod
    def read(cls, place: Path, subject: SubjectIdentity) -> Parts:
        """Those that a folder keeps; none where it keeps none.

        Raises `EvidenceError` for a damaged file, and for parts of another subject, naming what differs.
        """
        path = place / PARTS_NAME
        if not path.is_file():
            return cls()
        try:
            record = read_json(path)
            found, other = record["parts"], SubjectIdentity.of_record(record["subject"])
            parts = cls({name: found[name] for name in PARTS if name in found})
        except (ValueError, TypeError, KeyError) as error:
            raise EvidenceError(f"{path} is damaged: {error}; remove it, and the parts are measured again") from error
        if differences := other.differences(subject):
            raise EvidenceError(
                f"{path} is about another subject: {'; '.join(differences)}. Give another folder to --resume"
            )
        return parts


def measure_parts(
    subject: Subject,
    prompts: Sequence[EncodedPrompt],
    *,
    skip: frozenset[str],
    seed: int,
    max_tokens: int,
    models: str,
    known: Parts | None = None,
    on_part: Callable[[str], None] = lambda _: None,
    on_found: Callable[[Parts], None] = lambda _: None,
) -> Parts:
    """Measure all parts but those to skip, and those known already.

    Args:
        subject: What is validated.
        prompts: Its prompts.
        skip: Names out of `OPTIONAL`.
        seed: Root of the requests.
        max_tokens: Tokens of an output.
        models: Arguments of `eredu generate` that name the models, for replays.
        known: Parts that were measured before.
        on_part: Is told each part's name before it is measured.
        on_found: Is given all parts behind each that was measured.

    Returns:
        All, the known ones too, in the order of `PARTS`.
    """
    texts = [prompt.tokens for prompt in prompts]
    joined = [token for text in texts for token in text]
    sampled = sorted(prompts, key=lambda prompt: len(prompt.tokens))[:SAMPLED]
    found: dict[str, Mapping[str, Any]] = {} if known is None else dict(known.found)

    def tolerance() -> float:
        return float(found["numerics"]["tolerance"]) if "numerics" in found else COARSE

    def numerics() -> Any:
        widths = sorted({2, 3, 5, subject.depth + 1})
        room = [width for width in widths if 1 < width <= subject.depth + 1]
        return audit_numerics(subject.target, texts, subject.options.sampling, room)

    measures: dict[str, Callable[[], Any]] = {
        "static": lambda: inspect_subject(subject, joined),
        "numerics": numerics,
        "state": lambda: check_state(subject, joined, tolerance=tolerance()),
        "path": lambda: check_path(
            subject,
            sampled,
            noise=float(found["numerics"]["noise"]) if "numerics" in found else 0.0,
            seed=seed,
            max_tokens=min(COMPARED, max_tokens),
            models=models,
        ),
        "benefit": lambda: measure_benefit(subject, sampled, seed=seed, max_tokens=min(TIMED, max_tokens)),
    }
    if subject.engine is None:
        absent: tuple[str, ...] = ("subject",)
    else:
        absent, report = LEFT_OUT, subject.engine.report
        measures["subject"] = lambda: report
    for name in PARTS:
        if name not in found and name not in skip and name not in absent:
            on_part(name)
            found[name] = measures[name]().to_json()
            on_found(Parts(dict(found)))
    return Parts({name: found[name] for name in PARTS if name in found})

"""The subject of a validation: a target with its drafter, and the settings under which it decodes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from eredu.checkpoints.directory import OpenedDirectory
from eredu.checkpoints.gguf_set import read_gguf
from eredu.contract.events import EventSink
from eredu.contract.options import GenerationOptions, MtpSchedulerOptions
from eredu.loaded import LoadedModel
from eredu.prepared import PreparedRequest
from eredu.results import BatchResult
from eredu.scheduling.trace import TraceSink
from eredu_validation.evidence import SubjectIdentity
from eredu_validation.foreign.answers import ForeignEngine
from eredu_validation.measures.inside import Assistant, FittedModel, MlxBackend, PredictionHeads
from eredu_validation.measures.prompt_states import PromptStates

WEIGHED_SUFFIXES = frozenset({".gguf", ".json", ".jinja", ".model", ".tiktoken", ".npz"})
"""Files beside the weights of a checkpoint that can change its output."""
CHUNK_BYTES = 1 << 22


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What is validated.

    Attributes:
        model: The target, with its heads where they propose.
        assistant: The draft model, or None where the heads propose.
        options: Sampling, acceptance rule, K and output length; its seed is not used.
        schedule: How turns are taken.
        engine: Another engine that decodes in place of eredu; its probabilities still come from `model`.
        prompts: What target and drafter made of prompts on the plain path.
    """

    model: LoadedModel[MlxBackend]
    assistant: Assistant | None
    options: GenerationOptions
    schedule: MtpSchedulerOptions
    engine: ForeignEngine | None = None
    prompts: PromptStates = field(default_factory=PromptStates, repr=False, compare=False)

    @cached_property
    def target(self) -> FittedModel:
        """The target, ready to be fed."""
        return self.model.backend.target_model

    @cached_property
    def draft(self) -> FittedModel | None:
        """The assistant, ready to be fed. Raises `TokenizerError` where it is not the target's."""
        return None if self.assistant is None else self.model.backend.assistant_model(self.assistant)

    @property
    def heads(self) -> PredictionHeads | None:
        """The target's heads, where they propose."""
        return None if self.assistant is not None else self.model.backend.target.heads

    @property
    def depth(self) -> int:
        """Proposals of a round at the most: K, and no more than the heads make."""
        wanted = self.options.max_proposals
        return wanted if self.heads is None else min(wanted, self.heads.traits.max_proposals)

    def decode(
        self,
        requests: Sequence[PreparedRequest],
        *,
        sink: EventSink | None = None,
        trace: TraceSink | None = None,
        plain: bool = False,
    ) -> BatchResult:
        """Decode through the one scheduler, with the drafter unless `plain`."""
        if plain:
            return self.model.generate_prepared_chat(requests, schedule=self.schedule, sink=sink, trace=trace)
        return self.model.generate_prepared_chat_mtp_batch(
            requests, self.assistant, schedule=self.schedule, sink=sink, trace=trace
        )

    def close(self) -> None:
        """Stop the other engine, if there is one."""
        if self.engine is not None:
            self.engine.close()

    def with_options(self, **changes: Any) -> Subject:
        """The same pair under other options."""
        return replace(self, options=replace(self.options, **changes))

    def identity(self, *, head: Path | None, versions: dict[str, str], settings: dict[str, Any]) -> SubjectIdentity:
        """Names the subject so that any change of it shows.

        Args:
            head: Directory of heads that were put beside the target.
            versions: Versions that a result depends on.
            settings: What shapes the output beside options and schedule: dtype, prompts.
        """
        target = self.model.backend.target.path
        place = self.assistant.checkpoint.path if self.assistant is not None else head
        sampling, schedule = self.options.sampling, self.schedule
        return SubjectIdentity(
            target=content_digest(target),
            drafter="" if place is None else content_digest(place),
            versions=versions,
            settings={
                "sampling": {**vars_of(sampling), "logit_bias": {str(k): v for k, v in sampling.logit_bias.items()}},
                "acceptance": str(self.options.acceptance),
                "max_proposals": self.options.max_proposals,
                "max_tokens": self.options.max_tokens,
                "schedule": vars_of(schedule),
                "backend": self.model.backend.name,
                "placement": str(self.model.backend.placement.kind),
                **settings,
            },
        )


def vars_of(options: Any) -> dict[str, Any]:
    """Fields of an options object by name."""
    return {name: getattr(options, name) for name in options.__dataclass_fields__}


def content_digest(path: Path) -> str:
    """SHA-256 over the names and bytes of everything in a checkpoint that can change its output.

    Of weight files those that are loaded: a stray one beside an index changes nothing.
    """
    files: Sequence[Path]
    if path.is_dir():
        beside = [file for file in path.iterdir() if file.suffix in WEIGHED_SUFFIXES]
        files = sorted([*beside, *(header.path for header in OpenedDirectory(path).headers)])
    else:
        files = read_gguf(path).files
    whole = hashlib.sha256()
    for file in files:
        digest = hashlib.sha256()
        with file.open("rb") as stream:
            while chunk := stream.read(CHUNK_BYTES):
                digest.update(chunk)
        whole.update(
            f"{file.relative_to(path).as_posix() if path.is_dir() else file.name} {digest.hexdigest()}\n".encode()
        )
    return whole.hexdigest()

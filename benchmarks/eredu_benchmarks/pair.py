"""The target under measurement with its drafter, and one run of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from eredu.contract.errors import OptionError
from eredu.contract.options import GenerationOptions, MtpSchedulerOptions
from eredu.engine.mlx_backend import Assistant, MlxBackend, attention_bucket
from eredu.families.prediction_heads import PredictionHeads
from eredu.loaded import LoadedModel
from eredu.mlx.models import DRAFTER_FEEDS, FittedModel
from eredu.prepared import PreparedRequest
from eredu_benchmarks import mlx_lm_peer
from eredu_benchmarks.mlx_vlm_peer import VlmPeer
from eredu_benchmarks.run import Run
from eredu_benchmarks.setting import Engine, Setting
from eredu_benchmarks.stopwatch import Stopwatch


@dataclass(frozen=True, slots=True)
class EncodedPrompt:
    """A prompt as ids, under its name."""

    name: str
    tokens: tuple[int, ...]


@dataclass(frozen=True)
class BenchmarkPair:
    """A target and its drafter, loaded.

    Attributes:
        model: The target.
        assistant: The draft model; None measures the target's own prediction heads.
        vlm: The checkpoint as mlx-vlm loads it, where that is timed beside the heads.
    """

    model: LoadedModel[MlxBackend]
    assistant: Assistant | None = None
    vlm: VlmPeer | None = None

    @property
    def target_model(self) -> FittedModel:
        """The target, ready to be fed."""
        return self.model.backend.target_model

    @property
    def heads(self) -> PredictionHeads:
        """The target's heads. Raises `OptionError` where it has none."""
        heads = self.model.backend.target.heads
        if heads is None:
            raise OptionError("the target has no prediction heads to measure; name a draft model with --assistant")
        return heads

    @property
    def proposable(self) -> int:
        """Ids below this one may be proposed."""
        target = self.model.backend.target
        checkpoint = target if self.assistant is None else self.assistant.checkpoint
        rows = target.vocabulary_size if checkpoint.tokenizer is None else checkpoint.tokenizer.vocabulary_size
        return rows if self.assistant is None else min(rows, target.vocabulary_size, checkpoint.vocabulary_size)

    @property
    def assistant_model(self) -> FittedModel:
        """The assistant, ready to be fed, its logits fitted to the target's."""
        if self.assistant is None:
            raise OptionError("the target is measured with its own heads; there is no draft model")
        checkpoint = self.assistant.checkpoint
        return FittedModel(
            checkpoint.model,
            self.model.backend.target.vocabulary_size,
            checkpoint.context,
            attention_bucket(),
            recurrences=checkpoint.recurrences,
            proposable=self.proposable,
            journal_feeds=DRAFTER_FEEDS,
        )

    def run(self, setting: Setting, prompt: EncodedPrompt, options: GenerationOptions, *, repeat: int = 0) -> Run:
        """Decode one prompt one way; `options.max_proposals` is the setting's business."""
        if setting.engine is not Engine.EREDU:
            return self._run_peer(setting, prompt, options, repeat)
        request = PreparedRequest(
            prompt=prompt.tokens, options=replace(options, max_proposals=setting.proposals, lookahead_depth=None)
        )
        schedule = MtpSchedulerOptions(lookahead=setting.lookahead)
        watch = Stopwatch()
        if setting.proposals == 0:
            batch = self.model.generate_prepared_chat(
                [request], schedule=schedule, sink=watch.on_event, trace=watch.on_action
            )
        else:
            batch = self.model.generate_prepared_chat_mtp_batch(
                [request], self.assistant, schedule=schedule, sink=watch.on_event, trace=watch.on_action
            )
        result = batch.results[0]
        return Run(setting, repeat, prompt.name, result.tokens, watch.timing, watch.rounds, result.statistics)

    def _run_peer(self, setting: Setting, prompt: EncodedPrompt, options: GenerationOptions, repeat: int) -> Run:
        if not options.sampling.is_greedy:
            raise OptionError("peers are compared under greedy decoding only: there is no other common output")
        eos_ids = self.model.backend.eos_ids if options.eos_ids is None else options.eos_ids
        room = self.model.backend.target.context - len(prompt.tokens) + 1
        length = min(options.max_tokens, room)
        if setting.engine is Engine.MLX_VLM:
            if self.vlm is None:
                raise OptionError("mlx-vlm was not given the checkpoint; load it with `VlmPeer.load`")
            tokens, when = self.vlm.decode_greedily(
                prompt.tokens, proposals=setting.proposals, max_tokens=length, eos_ids=eos_ids
            )
        else:
            if setting.proposals and self.assistant is None:
                raise OptionError("mlx-lm drafts with a draft model only; name one with --assistant")
            tokens, when = mlx_lm_peer.decode_greedily(
                prompt.tokens,
                self.model.backend.target.model,
                None if self.assistant is None else self.assistant.checkpoint.model,
                proposals=setting.proposals,
                max_tokens=length,
                eos_ids=eos_ids,
            )
        return Run(setting, repeat, prompt.name, tokens, when)

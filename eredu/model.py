"""The front door: a loaded model that generates, streams, and holds sessions."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Unpack, overload

from eredu.contract.capability import MtpCapability
from eredu.contract.errors import OptionError, TokenizerError
from eredu.prepared import PreparedRequest
from eredu.prompts import encode_prompt, split_prompts
from eredu.request_options import RequestOptions, check_names, generation_options
from eredu.results import BatchResult, GenerationResult, SpeculationReport
from eredu.session import Session
from eredu.speculation import LEFT_ASIDE, PLAIN, Plan, plan_speculation
from eredu.stream import Stream

if TYPE_CHECKING:
    from eredu.engine.mlx_backend import Assistant, MlxBackend
    from eredu.loaded import LoadedModel
    from eredu.prompts import Prompt, Prompts
    from eredu.scheduling.trace import TraceSink
    from eredu.speculation import Wish
    from eredu.text.tokenizer import Tokenizer


def load(
    name: str | Path,
    *,
    assistant: str | Path | None = None,
    head: str | Path | None = None,
    heads: bool = True,
    dtype: str = "checkpoint",
    placement: str = "auto",
) -> Model:
    """Load a model, with the prediction heads it has or a draft model beside it.

    Args:
        name: A Hugging Face directory, a GGUF file, or a name such as `tiny-qwen3.5`.
        assistant: A draft model with the target's tokenizer, by path or name; the target's heads are left aside then.
        head: A directory of prediction heads, taken instead of the target's own.
        heads: False leaves all heads aside.
        dtype: `checkpoint` keeps what the files hold; `float32`, `float16`, `bfloat16` cast and dequantise;
            `quantized-float16` and its like keep quantised layers and cast the rest.
        placement: How target and drafter share the machine: `auto`, `one-stream`, `two-streams`, `two-devices`.

    Raises `CheckpointError`, `TokenizerError` or `OptionError` with what to do.

    >>> import eredu
    >>> model = eredu.load("tiny-qwen3.5")
    >>> model.speculation.reason
    'the prediction heads of the target propose'
    """
    from eredu.engine.load import load_target  # noqa: PLC0415 (MLX, when a model is loaded and no sooner)

    if assistant is not None and head is not None:
        raise OptionError("assistant and head are two drafters for one target; give one of them")
    target = load_target(name, head=head, with_heads=heads and assistant is None, dtype=dtype, placement=placement)
    model = Model(target, dtype=dtype)
    return model if assistant is None else model.with_assistant(assistant)


class Model:
    """A target in memory, with the drafter it was loaded with; `eredu.load` makes it.

    Threads may share it: turns of the scheduler exclude each other, and each session and stream belongs to the thread
    that made it.

    Args:
        loaded: The target on its backend.
        assistant: A draft model in memory, which "auto" takes; None leaves the target's heads, where it has them.
        dtype: What assistants that are named later are loaded as; see `load`.
    """

    def __init__(
        self, loaded: LoadedModel[MlxBackend], assistant: Assistant | None = None, *, dtype: str = "checkpoint"
    ) -> None:
        self.loaded = loaded
        self.assistant = assistant
        self._dtype = dtype
        self._named: dict[Path, Assistant] = {}
        self._turns = threading.RLock()

    def __repr__(self) -> str:
        return f"<eredu.Model {self.loaded.backend.target.path.name} on {self.loaded.backend.name}>"

    def with_assistant(self, assistant: str | Path | Assistant) -> Model:
        """This model with a draft model, by path, by name or in memory. Raises as `load` does."""
        model = Model(self.loaded, self._assistant(assistant), dtype=self._dtype)
        model._turns = self._turns
        return model

    @property
    def tokenizer(self) -> Tokenizer:
        """The target's tokenizer. Raises `TokenizerError` where it was loaded without one."""
        tokenizer = self.loaded.backend.target.tokenizer
        if tokenizer is None:
            raise TokenizerError("this model was loaded without a tokenizer, and knows token ids alone")
        return tokenizer

    @property
    def mtp_capability(self) -> MtpCapability:
        """What multi-token prediction would be with the drafter that the model was loaded with."""
        return self.loaded.mtp_capability(self.assistant)

    @property
    def speculation(self) -> SpeculationReport:
        """What `speculation="auto"` does with this model, and why."""
        return self._plan("auto").report

    # ---- generation ----------------------------------------------------------------------------------------------

    @overload
    def generate(
        self,
        prompt: Prompt,
        *,
        speculation: Wish = "auto",
        trace: TraceSink | None = None,
        **options: Unpack[RequestOptions],
    ) -> GenerationResult: ...
    @overload
    def generate(
        self,
        prompt: Prompts,
        *,
        speculation: Wish = "auto",
        trace: TraceSink | None = None,
        **options: Unpack[RequestOptions],
    ) -> BatchResult: ...
    def generate(
        self,
        prompt: Prompt | Prompts,
        *,
        speculation: Wish = "auto",
        trace: TraceSink | None = None,
        **options: Unpack[RequestOptions],
    ) -> GenerationResult | BatchResult:
        """Decode a prompt, or the prompts of a batch together, to the end.

        Args:
            prompt: A text (the user's turn of a chat; with `raw` a text to continue), a chat (a list of messages with
                `role` and `content`) or a list of token ids; a list of several of one of these is a batch.
            speculation: "auto" speculates where the model has a drafter, None decodes plainly, an `eredu.Speculation`
                is done or refused. What was done, and why, is in `result.speculation`.
            trace: Receives every action of the scheduler.
            options: See `eredu.RequestOptions`.

        Raises `OptionError` for what cannot be asked, `CapabilityError` for a speculation without drafter, and
        `TokenizerError` for a chat that the template refuses.

        >>> import eredu
        >>> model = eredu.load("tiny-qwen3.5")
        >>> result = model.generate("Write a story about a lighthouse.", max_tokens=8)
        >>> len(result.tokens), result.finish.value, result.speculation.reason
        (8, 'length', 'the prediction heads of the target propose')
        >>> plain = model.generate("Write a story about a lighthouse.", max_tokens=8, speculation=None)
        >>> plain.text == result.text
        True
        >>> prompts = ["Write a story about a fox.", "Write a story about a lighthouse."]
        >>> batch = model.generate(prompts, max_tokens=8)
        >>> batch[1].text == result.text
        True
        >>> chat = [{"role": "user", "content": "Write a story about a lighthouse."}]
        >>> model.generate(chat, max_tokens=8).text == result.text
        True
        """
        _require_sink(trace)
        plan = self._plan(speculation)
        several, seed, prepared = self._prepare(prompt, plan, options)
        schedule = plan.settings.schedule
        with self._turns:
            if plan.speculates:
                batch = self.loaded.generate_prepared_chat_mtp_batch(
                    prepared, plan.drafter, seed=seed, schedule=schedule, trace=trace
                )
            else:
                batch = self.loaded.generate_prepared_chat(prepared, seed=seed, schedule=schedule, trace=trace)
        results = tuple(replace(result, speculation=plan.report) for result in batch.results)
        return BatchResult(results, batch.schedule) if several else results[0]

    def stream(
        self,
        prompt: Prompt | Prompts,
        *,
        speculation: Wish = "auto",
        trace: TraceSink | None = None,
        **options: Unpack[RequestOptions],
    ) -> Stream:
        """Decode a prompt, or several together, event by event; the same outputs as `generate`.

        Arguments and errors as in `generate`. Events carry the number of their prompt, 0 where there is one.

        >>> import eredu
        >>> model = eredu.load("tiny-qwen3.5")
        >>> with model.stream("Write a story about a lighthouse.", max_tokens=100) as stream:
        ...     for event in stream:
        ...         if isinstance(event, eredu.TokensCommitted) and event.position >= 4:
        ...             stream.close()
        >>> result = stream.result()
        >>> result.finish.value, result.statistics.emitted == len(result.tokens), len(result.tokens) < 100
        ('cancelled', True, True)
        """
        plan = self._plan(speculation)
        _, seed, prepared = self._prepare(prompt, plan, options)
        session = self._session(plan, seed, trace)
        try:
            for request in prepared:
                session.add_prepared(request)
        except BaseException:
            session.close()
            raise
        return Stream(session)

    def session(self, *, speculation: Wish = "auto", seed: int = 0, trace: TraceSink | None = None) -> Session:
        """Open a session, to which requests may be added at any time.

        Args:
            speculation: As in `generate`, for all its requests.
            seed: Root for requests without a seed of their own; each draws from a part of its own.
            trace: Receives every action of the scheduler.

        Raises as `generate` does.
        """
        checked = replace(PLAIN.request, seed=seed)
        return self._session(self._plan(speculation), checked.seed or 0, trace)

    # ---- what a call comes to ------------------------------------------------------------------------------------

    def _session(self, plan: Plan, seed: int, trace: TraceSink | None) -> Session:
        _require_sink(trace)
        backend = self.loaded.backend
        lent = backend.speculative_executor(plan.drafter) if plan.speculates else backend.plain_executor()
        return Session(backend, lent, encode=self._encode, plan=plan, seed=seed, trace=trace, turns=self._turns)

    def _encode(self, prompt: Prompt, raw: bool) -> tuple[int, ...]:  # noqa: FBT001
        return encode_prompt(prompt, self.loaded.backend.target.tokenizer, raw=raw)

    def _prepare(
        self, prompt: Prompt | Prompts, plan: Plan, options: RequestOptions
    ) -> tuple[bool, int, list[PreparedRequest]]:
        """Whether a batch was given, the call's seed, and its requests."""
        check_names(options, beside=("speculation", "trace"))
        several, prompts = split_prompts(prompt)
        settings = generation_options(options, plan.settings.request)
        seed = 0 if settings.seed is None else settings.seed
        settings = replace(settings, seed=None if several else seed)
        prepared = [
            PreparedRequest(
                prompt=self._encode(each, options.get("raw", False)),
                options=settings,
                constraint=options.get("constraint"),
            )
            for each in prompts
        ]
        return several, seed, prepared

    def _plan(self, wish: Wish) -> Plan:
        unused = self.loaded.backend.target.unused
        return plan_speculation(
            wish,
            lambda given: self.assistant if given is None else self._assistant(given),
            self.loaded.mtp_capability,
            LEFT_ASIDE if unused is None else unused.reason,
        )

    def _assistant(self, given: str | Path | Assistant) -> Assistant:
        from eredu.checkpoints.names import resolve_checkpoint  # noqa: PLC0415
        from eredu.checkpoints.opening import open_checkpoint  # noqa: PLC0415
        from eredu.engine.load import load_assistant  # noqa: PLC0415
        from eredu.engine.mlx_backend import Assistant  # noqa: PLC0415
        from eredu.text.fingerprint import require_same_tokenizer  # noqa: PLC0415

        if isinstance(given, Assistant):
            return given
        if not isinstance(given, (str, Path)):
            raise OptionError(f"assistant was {given!r}; expected a name, a path, or an assistant in memory")
        path = resolve_checkpoint(str(given))
        if path not in self._named:
            tokenizer = open_checkpoint(path).tokenizer
            # rule: capability.same-vocabulary
            require_same_tokenizer(self.tokenizer.vocabulary, tokenizer.vocabulary)
            self._named[path] = load_assistant(path, tokenizer=tokenizer, dtype=self._dtype)
        return self._named[path]


def _require_sink(trace: object) -> None:
    if trace is not None and not callable(trace):
        raise OptionError(f"trace was {trace!r}; expected a function that takes one action, a dictionary")

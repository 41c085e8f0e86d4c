"""A trial: a run of a crafted pair, before it is known where the checkpoints lie."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

from eredu_conformance.checks.roots import root
from eredu_conformance.crafted import CheckpointPair, PairDirectories
from eredu_conformance.protocol import Checkpoint, Request, Run, RunOptions, Schedule


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What is asked of a subject.

    Attributes:
        pair: Target and draft.
        requests: One or more.
        schedule: How they are scheduled.
        seed: Seed of the call.
    """

    pair: CheckpointPair
    requests: tuple[Request, ...]
    schedule: Schedule = field(default_factory=Schedule)
    seed: int | None = None

    @classmethod
    def of(cls, pair: CheckpointPair, options: RunOptions, *, schedule: Schedule | None = None) -> Trial:
        """One request of the pair's prompt."""
        request = Request(prompt=pair.prompt, options=options)
        return cls(pair=pair, requests=(request,), schedule=schedule or Schedule())

    def seeded(self, seed: int, name: str, count: int) -> Trial:
        """The first request `count` times, each with a seed of its own: the roots of a name, by number."""
        first = self.requests[0]
        roots = [root(seed, name, index) for index in range(count)]
        return replace(
            self, requests=tuple(replace(first, options=replace(first.options, seed=each)) for each in roots)
        )

    def run(self, place: PairDirectories) -> Run:
        """The run, with the pair's checkpoints at a place; plain runs name no draft."""
        run = Run(
            checkpoint=Checkpoint(target=place.target),
            requests=self.requests,
            schedule=self.schedule,
            seed=self.seed,
        )
        return replace(run, checkpoint=Checkpoint(target=place.target, draft=place.draft)) if run.speculates else run

    def plain(self) -> Trial:
        """The same requests without proposals, and with the schedule that asks nothing."""
        requests = tuple(
            replace(r, options=replace(r.options, max_proposals=0, lookahead_depth=None)) for r in self.requests
        )
        return replace(self, requests=requests, schedule=Schedule())

    def alone(self, index: int) -> Trial:
        """One of the requests. Its seed must be its own for its output to stay what it was."""
        return replace(self, requests=(self.requests[index],))

    def describe(self) -> dict[str, Any]:
        """Pair, prompts and everything that was asked, as JSON-able values; neutral settings are left out."""
        requests = []
        for request in self.requests:
            asked = asdict(request.options)
            options = {name: asked[name] for name in sorted(request.options.asked() | {"max_tokens"})}
            shown: dict[str, Any] = {"prompt": list(request.prompt), "options": _plain(options)}
            if request.cancel_after is not None:
                shown["cancel_after"] = request.cancel_after
            requests.append(shown)
        schedule = {name: getattr(self.schedule, name) for name in sorted(self.schedule.asked())}
        described: dict[str, Any] = {"pair": self.pair.name, "requests": requests}
        if schedule:
            described["schedule"] = schedule
        if self.seed is not None:
            described["seed"] = self.seed
        return described


def _plain(value: Any) -> Any:
    """Tuples as lists, enumerations as their values."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return getattr(value, "value", value)

"""Faults of whole random streams, and of decisions that look at what may be drawn again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from eredu_conformance.faults.fault import Fault
from eredu_reference import Drafter, Model, RandomSource, Request, ThreefrySource, source_of
from eredu_reference.clipping import Clip, ClipReason, Limits, clip
from eredu_reference.rows import Row
from eredu_reference.sources import Address, Role, Uniform, gumbel_argmax, gumbel_vector
from eredu_spec import randomness


@dataclass
class Stream:
    """A generator with a state: each draw takes the next number, whatever it is for.

    Attributes:
        inner: Gives number i at the address of position i.
        drawn: Numbers taken so far.
    """

    inner: RandomSource
    drawn: int = 0

    def _next(self) -> Address:
        self.drawn += 1
        return Address(Role.NOISE, self.drawn)

    def uniform(self, address: Address) -> Uniform:  # noqa: ARG002
        """The next number, as a coin."""
        return self.inner.uniform(self._next())

    def categorical(self, address: Address, row: Row) -> int:  # noqa: ARG002
        """The next number, as a draw."""
        return self.inner.categorical(self._next(), row)


@dataclass(frozen=True)
class PairedWords:
    """The noise of an address with its words in another order.

    Attributes:
        inner: The right source, for coins and keys.
    """

    inner: RandomSource

    def uniform(self, address: Address) -> Uniform:
        """The right coin: one word has no order."""
        return self.inner.uniform(address)

    def categorical(self, address: Address, row: Row) -> int:
        """Gumbel-max with word 1 and word N/2 + 1 exchanged, and so on."""
        assert isinstance(self.inner, ThreefrySource), "the words are those of the spec's generator"
        words = randomness.words(randomness.key(self.inner.root, address), len(row) + len(row) % 2)
        half = len(words) // 2
        paired = [word for i in range(half) for word in (words[i], words[i + half])]
        return gumbel_argmax(row, gumbel_vector(paired[: len(row)]))


def _engine_wide() -> Mapping[str, object]:
    stream = Stream(ThreefrySource((0, 0)))
    return {"source_of": lambda request: stream}  # noqa: ARG005


def _one_root_a_call(request: Request) -> RandomSource:
    return source_of(replace(request, batch_index=None if request.batch_index is None else 0))


def _depth_from_draws() -> Mapping[str, object]:
    last = [1]

    def begin(target: Model, drafter: Drafter) -> None:  # noqa: ARG001
        last[0] = 1

    def draw(source: RandomSource, address: Address, row: Row) -> int:
        last[0] = source.categorical(address, row)
        return last[0]

    def depth(limits: Limits) -> Clip:
        planned = clip(limits)
        return planned if last[0] != 0 else Clip(0, planned.reason)

    return {"check_pair": begin, "draw_proposal": draw, "clip": depth}


def _depth_from_clock() -> Mapping[str, object]:
    clock = [0]

    def depth(limits: Limits) -> Clip:
        clock[0] += 1
        planned = clip(limits)
        return Clip(min(planned.count, 1 + clock[0] % 7 % 3), ClipReason.REQUEST)

    return {"clip": depth}


def _swapped_seed(request: Request) -> RandomSource:
    right = source_of(request)
    assert isinstance(right, ThreefrySource), "the root is that of the spec's generator"
    return ThreefrySource((right.root[1], right.root[0]))


FAULTS = (
    Fault(
        name="words-taken-in-pairs",
        rule="randomness.generator",
        killed_by="path.equals-reference/table/rejection/k3",
        story="The two words of each block are laid side by side instead of in two halves. Every statistic of the noise"
        " is perfect, and no other engine gives the same output for the seed.",
        replace={"source_of": lambda request: PairedWords(source_of(request))},
    ),
    Fault(
        name="seed-words-swapped",
        rule="randomness.address-to-key",
        killed_by="path.equals-reference/table/rejection/k3",
        story="The low word of the seed comes first: another root, another output, nothing else to see.",
        replace={"source_of": _swapped_seed},
    ),
    Fault(
        name="seed-ignored",
        rule="randomness.by-position",
        source="vllm-project/vllm 6038",
        killed_by="path.equals-reference/table/rejection/k3",
        story="A seed is accepted and reaches no generator.",
        replace={"source_of": lambda request: source_of(replace(request, seed=0))},
    ),
    Fault(
        name="engine-wide-stream",
        rule="scheduling.requests-independent",
        source="NVIDIA/TensorRT-LLM 17599",
        killed_by="path.equals-reference/table/rejection/k3",
        story="All requests draw from one generator, so that each moves the others.",
        replace=_engine_wide,
    ),
    Fault(
        name="stream-moved-by-discarded-work",
        rule="randomness.stateless",
        source="sgl-project/sglang 30822",
        killed_by="path.equals-reference/table/rejection/k3",
        story="Each request has a generator of its own, and every proposal advances it, the dropped ones included.",
        replace={"source_of": lambda request: Stream(source_of(request))},
    ),
    Fault(
        name="one-root-for-a-call",
        rule="scheduling.requests-independent",
        killed_by="path.call-seed-differs-by-request/rejection",
        story="The requests of a call that share a seed share all their numbers.",
        replace={"source_of": _one_root_a_call},
    ),
    Fault(
        name="depth-from-a-discarded-draw",
        rule="randomness.control-ignores-redrawable",
        killed_by="law.exact/law-order-2/t1/rejection/k2/t3",
        story="The next k depends on the last proposal that was drawn. Where it was dropped unexamined, the next round"
        " draws it again from the same number, which the choice of k has made less than random.",
        replace=_depth_from_draws,
    ),
    Fault(
        name="depth-from-the-clock",
        rule="adaptive.no-clock",
        source="Rapid-MLX (reproducible depth)",
        killed_by="state.statistics-equal-reference/table-equal/greedy/off",
        story="The depth follows measured times, so that a seed gives another text on another day.",
        replace=_depth_from_clock,
    ),
)

"""Cases that oracles run an engine on: a target, a drafter and a request, made from a seed.

Each case is there for a kind of state or a setting that some fault needs in order to show.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from eredu_conformance.oracles.grammars import bracket_grammar, triggered_grammar
from eredu_reference import Drafter, Model, Request, Sampling, TextOptions
from eredu_reference.models import (
    CacheLengthEcho,
    HiddenModel,
    HiddenReader,
    PooledModel,
    PositionEcho,
    RunningSumModel,
    TableModel,
    WindowModel,
    random_rows,
)
from eredu_reference.models.coded import echo_rows


@dataclass(frozen=True)
class Case:
    """One thing to decode.

    Attributes:
        name: What it is there for.
        target: The model whose law counts.
        drafter: The model that proposes.
        request: What is asked.
        perfect: Whether the drafter is the target in disguise, so that greedy drafts are always accepted.
    """

    name: str
    target: Model
    drafter: Drafter
    request: Request
    perfect: bool = False

    def with_request(self, **changes: object) -> Case:
        """A copy with a changed request."""
        return replace(self, request=replace(self.request, **changes))  # type: ignore[arg-type]

    def greedy(self) -> Case:
        """A copy at temperature 0."""
        return self.with_request(sampling=replace(self.request.sampling, temperature=0.0))


VOCABULARY = 5


def _rows(seed: int, count: int = 64) -> tuple[tuple[float, ...], ...]:
    return tuple(random_rows(count, VOCABULARY, seed=seed, sharpness=2.0))


def _request(seed: int, **changes: object) -> Request:
    base = Request(prompt=(1, 3, 0, 2, 2, 4), max_tokens=11, seed=seed, max_proposals=2 + seed % 2)
    return replace(base, **changes)  # type: ignore[arg-type]


def _bigram(seed: int) -> Drafter:
    return Drafter(TableModel.random(VOCABULARY, order=1, seed=seed, sharpness=2.0))


def _flat_table(seed: int) -> TableModel:
    """Rows whose largest entries come in equal pairs, so that every argmax is a tie."""
    rows: dict[tuple[int, ...], tuple[float, ...]] = {}
    for token in range(VOCABULARY):
        pair = {(token + seed) % VOCABULARY, (2 * token + seed + 1) % VOCABULARY}
        rows[(token,)] = tuple(
            0.7 / len(pair) if x in pair else 0.3 / (VOCABULARY - len(pair)) for x in range(VOCABULARY)
        )
    return TableModel(rows)


def table_case(seed: int) -> Case:
    """A table of order 2 and an unrelated drafter."""
    return Case(
        "table", TableModel.random(VOCABULARY, order=2, seed=seed, sharpness=2.0), _bigram(seed + 1), _request(seed)
    )


def twin_case(seed: int) -> Case:
    """The drafter is the target, p = q: blocks are accepted, branches promoted."""
    table = TableModel.random(VOCABULARY, order=2, seed=seed, sharpness=2.0)
    return Case("twin", table, Drafter(table), _request(seed, max_tokens=14), perfect=True)


def near_case(seed: int) -> Case:
    """The drafter agrees with the target on most rows: promotions and rejections follow each other."""
    table = TableModel.random(VOCABULARY, order=2, seed=seed, sharpness=3.0)
    other = TableModel.random(VOCABULARY, order=2, seed=seed + 1, sharpness=3.0)
    mixed = {key: (other.rows[key] if sum(key) % 4 == seed % 4 else row) for key, row in table.rows.items()}
    return Case("near", table, Drafter(TableModel(mixed, order=2)), _request(seed, max_tokens=14))


def recurrent_case(seed: int) -> Case:
    """Running sum and convolution."""
    model = RunningSumModel(_rows(seed))
    drafter = Drafter(model) if seed % 2 else Drafter(RunningSumModel(_rows(seed + 1)))
    return Case("recurrent", model, drafter, _request(seed), perfect=bool(seed % 2))


def window_case(seed: int) -> Case:
    """A window of 4 over a prompt of 6."""
    model = WindowModel(_rows(seed))
    drafter = Drafter(WindowModel(_rows(seed + 1))) if seed % 2 else Drafter(model)
    return Case("window", model, drafter, _request(seed), perfect=not seed % 2)


def pooled_case(seed: int) -> Case:
    """Pools of two rows."""
    model = PooledModel(_rows(seed))
    drafter = Drafter(model) if seed % 2 else _bigram(seed + 1)
    return Case("pooled", model, drafter, _request(seed), perfect=bool(seed % 2))


def position_case(seed: int) -> Case:
    """The next id is the position; the drafter errs on every third."""
    target = PositionEcho(echo_rows(60, VOCABULARY))
    wrong = tuple(row if code % 3 else (*row[1:], row[0]) for code, row in enumerate(target.rows))
    drafter = Drafter(PositionEcho(wrong)) if seed % 2 else Drafter(target)
    return Case("position-echo", target, drafter, _request(seed), perfect=not seed % 2)


def length_case(seed: int) -> Case:
    """The next id is the cache's length; the drafter errs on every fourth."""
    target = CacheLengthEcho(echo_rows(60, VOCABULARY))
    wrong = tuple(row if code % 4 else (*row[1:], row[0]) for code, row in enumerate(target.rows))
    drafter = Drafter(CacheLengthEcho(wrong)) if seed % 2 else Drafter(target)
    return Case("length-echo", target, drafter, _request(seed), perfect=not seed % 2)


def hidden_case(seed: int) -> Case:
    """The drafter reads the target's hidden state; for even seeds it errs on every fifth code."""
    rows = _rows(seed)
    others = rows if seed % 2 else tuple(row if code % 5 else (*row[1:], row[0]) for code, row in enumerate(rows))
    drafter = Drafter(HiddenReader(others), reads_hidden=True)
    return Case("hidden", HiddenModel(rows), drafter, _request(seed), perfect=bool(seed % 2))


def inexact_case(seed: int) -> Case:
    """A drafter that promises no exact promotion, and so gets no branches."""
    return replace(twin_case(seed), name="inexact", drafter=replace(twin_case(seed).drafter, exact_promotion=False))


def shallow_case(seed: int) -> Case:
    """Branches of two tokens under blocks of three: what is promoted must be topped up."""
    return replace(twin_case(seed), name="shallow").with_request(lookahead_depth=2, max_proposals=3, max_tokens=20)


def penalty_case(seed: int) -> Case:
    """Penalties that look at every earlier token."""
    sampling = Sampling(frequency_penalty=0.9, presence_penalty=0.4, repetition_penalty=1.7, repeat_last_n=5)
    base = twin_case(seed) if seed % 2 else near_case(seed)
    return replace(base, name="penalties", perfect=False).with_request(sampling=sampling)


def filter_case(seed: int) -> Case:
    """Temperature, bias and all filters; one id is banned, which the target likes best."""
    table = TableModel.random(VOCABULARY, order=2, seed=seed)
    likes = {
        key: tuple(x / 3 + (2 / 3 if i == 2 else 0.0) for i, x in enumerate(row)) for key, row in table.rows.items()
    }
    sampling = Sampling(temperature=0.7, logit_bias={2: -1e9, 1: 0.5}, top_k=4, top_p=0.95, min_p=0.02)
    drafter = Drafter(table) if seed % 2 else _bigram(seed + 1)
    return Case("filters", TableModel(likes, order=2), drafter, _request(seed, sampling=sampling))


def tie_case(seed: int) -> Case:
    """Equal maxima everywhere."""
    return Case("ties", _flat_table(seed), Drafter(_flat_table(seed)), _request(seed), perfect=True)


def eos_case(seed: int) -> Case:
    """An end-of-sequence id that both models like."""
    base = twin_case(seed) if seed % 2 else near_case(seed)
    return replace(base, name="eos").with_request(eos_ids=frozenset({seed % VOCABULARY}), max_tokens=20)


def stop_case(seed: int) -> Case:
    """Stop sequences of two ids, in every constellation."""
    base = near_case(seed) if seed % 2 else twin_case(seed)
    stops = ((seed % VOCABULARY, (seed // 2) % VOCABULARY), ((seed + 1) % VOCABULARY, (seed + 3) % VOCABULARY))
    return replace(base, name="stops").with_request(stop_sequences=stops, max_tokens=20)


def text_case(seed: int) -> Case:
    """Ids that are halves of characters, and a stop string that ends inside a token."""
    text = TextOptions(vocabulary=(b"a", b"b", "é".encode()[:1], "é".encode()[1:], b"ab"), stop_strings=("ba", "éa"))
    base = near_case(seed) if seed % 2 else twin_case(seed)
    return replace(base, name="text").with_request(text=text, max_tokens=20)


def grammar_case(seed: int) -> Case:
    """A grammar that completes, sometimes inside a block."""
    base = twin_case(seed) if seed % 2 else near_case(seed)
    return replace(base, name="grammar").with_request(constraint=bracket_grammar(VOCABULARY), max_tokens=16)


def trigger_case(seed: int) -> Case:
    """A grammar that begins with a trigger token, at any place of a block."""
    base = near_case(seed) if seed % 2 else twin_case(seed)
    return replace(base, name="trigger").with_request(constraint=triggered_grammar(VOCABULARY), max_tokens=16)


def context_case(seed: int) -> Case:
    """A target context that ends the output, and a drafter context that ends the drafting before."""
    target = TableModel.random(VOCABULARY, order=2, seed=seed, sharpness=2.0, context=13 + seed % 3)
    drafter = Drafter(replace(target, context=10 + seed % 5))
    return Case("contexts", target, drafter, _request(seed, max_tokens=30, max_proposals=3))


MAKERS: tuple[Callable[[int], Case], ...] = (
    table_case,
    twin_case,
    near_case,
    recurrent_case,
    window_case,
    pooled_case,
    position_case,
    length_case,
    hidden_case,
    inexact_case,
    shallow_case,
    penalty_case,
    filter_case,
    tie_case,
    eos_case,
    stop_case,
    text_case,
    grammar_case,
    trigger_case,
    context_case,
)


def cases(seed: int) -> list[Case]:
    """One case of each kind."""
    return [make(seed) for make in MAKERS]

"""What the tests of the spec share: settings over small worlds, and laws cheap enough to compute again and again."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest

from eredu_spec.draws import Draws, Fresh
from eredu_spec.processing import Processing
from eredu_spec.request import Settings
from eredu_spec.tables import HiddenRow, Tables
from eredu_spec.terminal import Terminals
from eredu_spec.worlds import KINDS, world

MakeSettings = Callable[..., Settings]


@pytest.fixture
def exact() -> MakeSettings:
    """Makes the settings of one request over a world drawn from a seed."""

    def make(
        rule: str,
        *,
        seed: int = 0,
        vocabulary: int = 3,
        order: int = 2,
        kinds: tuple[str, ...] = KINDS,
        draws: Draws | None = None,
        processing: Processing | None = None,
        terminals: Terminals | None = None,
        hidden: HiddenRow | None = None,
        **settings: object,
    ) -> Settings:
        tables = world(seed, vocabulary=vocabulary, order=order, kinds=kinds)
        model = Tables(
            target=tables.target,
            draft=tables.draft,
            order=order,
            rule=rule,
            draws=draws or Fresh(),
            processing=processing or Processing(),
            terminals=terminals or Terminals(),
            hidden=hidden,
        )
        chosen: dict[str, object] = {"prompt": (0, 0), "max_tokens": 5, "requested": 2, "lookahead_depth": 3}
        return Settings(model=model, rule=rule, **(chosen | settings))  # type: ignore[arg-type]

    return make


def tilted(row: tuple[Fraction, ...], reach: int) -> tuple[Fraction, ...]:
    """A drafter that reads hidden states: its row turns with the distance to the last one it read."""
    return tuple(weight + Fraction(3 * ((token + reach) % len(row)), 5) for token, weight in enumerate(row))


@pytest.fixture
def hidden_state() -> HiddenRow:
    """The row function of a drafter that reads hidden states."""
    return tilted

"""How prediction heads are wired to their target, and how a config.json states it.

Published sources disagree on the details, so they are a value: the right one is the one under which a trained head
agrees with its target.
"""

from __future__ import annotations

from dataclasses import dataclass

from eredu.checkpoints.config import ModelConfig
from eredu.contract.errors import CheckpointError

_SIDES = ("before-norm", "after-norm")


@dataclass(frozen=True, slots=True)
class Wiring:
    """How a head is wired.

    Attributes:
        hidden_after_norm: Whether the head reads the target's hidden state behind its final norm (else before it).
        hidden_first: Whether the hidden state is the first half of the fused vector (else the embedding is).
        chain_after_norm: Whether the next step reads the head's output behind its norm (else before it).
    """

    hidden_after_norm: bool = False
    hidden_first: bool = False
    chain_after_norm: bool = False

    def __str__(self) -> str:
        sides = ("before norm", "after norm")
        first = "hidden first" if self.hidden_first else "embedding first"
        return f"hidden {sides[self.hidden_after_norm]}, {first}, chain {sides[self.chain_after_norm]}"


AFTER_NORMS = Wiring(hidden_after_norm=True, chain_after_norm=True)
"""Both hidden states behind a norm. Qwen's heads were trained on it: measured on Qwen3.5 to 3.8 by llama.cpp (pull
request 24025), LightLLM (1402) and others, against the side before the norm; vLLM and mlx-vlm run them so. It is what
DeepSeek's modelling code hands its heads, what measured best on DeepSeek R1 among public engines, and what Megatron
trains Nemotron-H's heads on."""


def stated_wiring(config: ModelConfig) -> Wiring | None:
    """The wiring that a config.json states under `wiring`; None where it states none.

    Raises `CheckpointError` for anything but `{"hidden": …, "first": …, "chain": …}` with known words.
    """
    stated = config.get("wiring")
    if stated is None:
        return None
    choices = {"hidden": _SIDES, "first": ("embedding", "hidden"), "chain": _SIDES}
    known = isinstance(stated, dict) and stated.keys() == choices.keys()
    if not known or any(stated[key] not in words for key, words in choices.items()):
        expected = ", ".join(f"{key}: {' or '.join(words)}" for key, words in choices.items())
        raise CheckpointError(f"{config.path} gives wiring as {stated!r}; expected an object with {expected}")
    return Wiring(*(stated[key] == words[1] for key, words in choices.items()))

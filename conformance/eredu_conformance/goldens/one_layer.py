"""A prediction head as a Transformers model of its own: one embedding-less decoder whose final norm is the head's.

Transformers has code of its own for DeepSeek V3's heads and none for the others. But every head is decoder layers of
the target's kind with a norm behind them, so the head's tensors, renamed, are a checkpoint that Transformers loads.
What remains to be written is the fusion in front, three lines that stand in `making`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from eredu_conformance.zoo import ZooMember
from eredu_conformance.zoo.member import HeadDecoder


def head_decoder(member: ZooMember, stage: int) -> tuple[ZooMember, HeadDecoder]:
    """Layers, final norm and output projection of one stage as a checkpoint, and what it was made of."""
    if member.head_decoder is None:
        raise ValueError(f"{member.name} has no prediction heads")
    decoder = member.head_decoder(member, stage)
    config: dict[str, Any] = dict(member.config)
    if "text_config" in config:
        config["text_config"] = config["text_config"] | decoder.changed
    else:
        config |= decoder.changed
    alone = replace(member, name=f"{member.name}-head", config=config, body=decoder.body, head={}, heads=0)
    return alone, decoder

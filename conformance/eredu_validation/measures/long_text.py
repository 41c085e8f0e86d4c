"""A longer text of this project's own, for a prompt whose context passes the chunks of a prefill and small windows."""

from __future__ import annotations

_STORY = (
    "The house by the weir has eleven rooms, and old Mrs Tandy counted them every evening before she locked the door.",
    "The fourth room was locked. Its key had been lost in the flood, together with two hens and a bicycle.",
    "In the eighth slept the cat, and the eleventh was for a guest who had been expected for thirty years.",
    "On the Monday after the fair the river rose by a hand, and her nephew Ambrose found a box of tin in the attic.",
    "On the Wednesday the miller's boy came in a boat and saw a key shine under the roots of the black alder.",
    "It fitted no door in the house, but it turned in the box, and in the box lay a thread with a feather on it.",
    "The thread led under the bed of the guest who had never come, and there, in a shoe, lay the second key.",
    "It was the miller's boy who pulled the shoe out, and the fourth room opened as if it had been waiting for him.",
)

LONG_TEXT = "\n".join(("Read this carefully.", *_STORY))
"""About 250 tokens in most vocabularies."""

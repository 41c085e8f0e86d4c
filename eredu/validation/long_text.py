"""A long text of this project's own, for prompts whose context passes windows and chunks."""

from __future__ import annotations

_ROOMS = (
    "The house by the weir has eleven rooms, and old Mrs Tandy counted them every evening before she locked the door.",
    "In the first room stood the piano that nobody played since her brother had gone to sea.",
    "In the second there were only chairs, nine of them, turned to the wall as if they had misbehaved.",
    "The third was the kitchen, and it smelled of quinces from September until the first frost.",
    "The fourth was locked. Its key had been lost in the flood, together with two hens and a bicycle.",
    "In the fifth room her nephew Ambrose kept the birds that he had found with broken wings.",
    "The sixth had a window to the river, and in it a telescope that showed everything upside down.",
    "The seventh was full of newspapers, tied in bundles by month, and the months did not follow each other.",
    "In the eighth slept the cat, who was the only one that ever went into the ninth.",
    "The tenth was Ambrose's own, and the eleventh was for a guest who had been expected for thirty years.",
)
_EVENTS = (
    "On the Monday after the fair the river rose by a hand, and Ambrose carried the birds up to the attic.",
    "He found a crack in the wall there, and behind it a box of tin with a label in his grandmother's writing.",
    "The label said: for whoever is patient. The box would not open, neither with a knife nor with a prayer.",
    "On the Tuesday Mrs Tandy wrote to the locksmith in Elbury, who answered that he was in bed with a cough.",
    "On the Wednesday the water stood at the third step, and the miller's boy came in a boat to ask for bread.",
    "While he waited he looked through the telescope and saw something shine under the roots of the black alder.",
    "It was a key, green with age. It fitted no door in the house, but it turned in the box of tin.",
    "In the box lay a second label, which said: you are not yet patient enough, and a drawing of eleven rooms.",
    "One of the rooms in the drawing had no door at all. Ambrose measured the corridor twice and said nothing.",
    "On the Thursday the cat came out of the ninth room with a feather, and on the feather hung a thread.",
    "The thread led under the bed of the guest who had never come, and there, in a shoe, lay the second key.",
    "It was the miller's boy who pulled the shoe out, since he was the smallest, and he gave the key to nobody.",
    "He walked to the fourth room, and the door opened as if it had been waiting for a boy with wet feet.",
    "There was a table in it, laid for twelve, and the soup on it was still warm.",
)

LONG_TEXT = "\n".join(("Read this carefully.", *_ROOMS, *_EVENTS))
"""About 650 tokens in most vocabularies."""

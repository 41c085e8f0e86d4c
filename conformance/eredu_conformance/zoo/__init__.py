"""The zoo: a tiny checkpoint with random weights for every family, laid out as its publisher would.

Weights are drawn by name with numpy alone, so the same bytes come out everywhere. They are lively: greedy outputs
wander, and routers use all of their experts. Members are also written as converters leave them (`converting`), and
with one thing wrong (`damage`), and there are members changed in one respect that implementations are known to read
differently (`edges`).
"""

from eredu_conformance.zoo.catalogue import MEMBERS, zoo_edges, zoo_member
from eredu_conformance.zoo.converting import CONVERSIONS, Conversion, HeadPlace, write_converted, write_head
from eredu_conformance.zoo.damage import Damage, write_damaged
from eredu_conformance.zoo.member import ZooMember
from eredu_conformance.zoo.members.deepseek import deepseek_v3, deepseek_v32
from eredu_conformance.zoo.members.nemotron import nemotron_h
from eredu_conformance.zoo.quantising import Affine
from eredu_conformance.zoo.storing import Precision, rounded
from eredu_conformance.zoo.writing import Parts

__all__ = [
    "CONVERSIONS",
    "MEMBERS",
    "Affine",
    "Conversion",
    "Damage",
    "HeadPlace",
    "Parts",
    "Precision",
    "ZooMember",
    "deepseek_v3",
    "deepseek_v32",
    "nemotron_h",
    "rounded",
    "write_converted",
    "write_damaged",
    "write_head",
    "zoo_edges",
    "zoo_member",
]

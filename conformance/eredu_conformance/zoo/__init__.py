"""The zoo: a tiny checkpoint with random weights for every family, laid out as its publisher would.

Weights are drawn by name with numpy alone, so the same bytes come out everywhere. They are lively: greedy outputs
wander, and routers use all of their experts.
"""

from eredu_conformance.zoo.catalogue import MEMBERS, zoo_member
from eredu_conformance.zoo.deepseek import deepseek_v3, deepseek_v32
from eredu_conformance.zoo.member import ZooMember
from eredu_conformance.zoo.nemotron import nemotron_h
from eredu_conformance.zoo.writing import Parts

__all__ = ["MEMBERS", "Parts", "ZooMember", "deepseek_v3", "deepseek_v32", "nemotron_h", "zoo_member"]

"""Published models written out in float64 numpy: what a loaded decoder and its heads must agree with.

Written from the papers and the published modelling code, one sequence at a time, without caches, kernels or MLX.
"""

from eredu_conformance.published.deepseek import DeepSeek
from eredu_conformance.published.nemotron import NemotronH

__all__ = ["DeepSeek", "NemotronH"]

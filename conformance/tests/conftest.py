"""Profiles of the random tests: `ci` draws the same examples every time, `nightly` draws new ones, and many.

On CUDA, MLX multiplies float32 matrices in TF32 unless told otherwise, which is off by 1e-3: no test could tell that
from a fault, so the tests ask for true float32, before anything imports MLX.

Each test process has one core: numpy's BLAS gets no threads of its own beside it, and the collector of cycles comes
round less often than it would for programs that live long.
"""

from __future__ import annotations

import gc
import os

from hypothesis import HealthCheck, Phase, settings

os.environ.setdefault("MLX_ENABLE_TF32", "0")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
gc.set_threshold(100_000, 20, 20)

settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    max_examples=40,
    stateful_step_count=30,
    phases=(Phase.explicit, Phase.generate, Phase.target, Phase.shrink),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "nightly", deadline=None, max_examples=1000, stateful_step_count=80, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

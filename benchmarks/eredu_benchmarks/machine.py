"""What a measurement ran on, for the head of its report."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

import mlx.core as mx


def describe_machine() -> dict[str, Any]:
    """Device, cores and the preloaded libraries, which decide the speed of MLX's CPU build."""
    device = mx.default_device()
    preload = os.environ.get("LD_PRELOAD") or os.environ.get("DYLD_INSERT_LIBRARIES") or ""
    return {
        "device": str(device),
        "device_info": {name: value for name, value in mx.device_info(device).items() if name != "resource_limit"},
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "preload": [Path(name).name for name in preload.replace(":", " ").split()],
    }

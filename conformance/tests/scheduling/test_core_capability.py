"""`MtpCapability`: three answers, and a JSON form that never moves."""

from __future__ import annotations

import json
from typing import Any

import pytest

from eredu.contract.capability import MtpCapability, MtpCheckpointKind, MtpState
from eredu.contract.errors import CapabilityError

FORMS: list[tuple[MtpCapability, dict[str, str]]] = [
    (MtpCapability.unavailable(), {"state": "unavailable"}),
    (MtpCapability.ready(MtpCheckpointKind.SEPARATE), {"state": "ready", "checkpoint": "separate"}),
    (MtpCapability.ready(MtpCheckpointKind.EMBEDDED), {"state": "ready", "checkpoint": "embedded"}),
    (
        MtpCapability.unsupported(MtpCheckpointKind.EMBEDDED, "deepseek_v3"),
        {"state": "unsupported", "checkpoint": "embedded", "architecture": "deepseek_v3"},
    ),
]


@pytest.mark.parametrize(("capability", "form"), FORMS)
def test_json_form_is_pinned_and_inverts(capability: MtpCapability, form: dict[str, str]) -> None:
    assert capability.to_json() == form
    assert MtpCapability.from_json(json.loads(json.dumps(form))) == capability


@pytest.mark.parametrize(("capability", "form"), FORMS)
def test_only_ready_is_ready(capability: MtpCapability, form: dict[str, str]) -> None:
    assert capability.is_ready == (form["state"] == "ready")


@pytest.mark.parametrize("state", MtpState)
@pytest.mark.parametrize("checkpoint", [None, MtpCheckpointKind.SEPARATE])
@pytest.mark.parametrize("architecture", [None, "llama"])
def test_each_state_carries_exactly_its_fields(
    state: MtpState, checkpoint: MtpCheckpointKind | None, architecture: str | None
) -> None:
    sound = {
        (MtpState.UNAVAILABLE, False, False),
        (MtpState.READY, True, False),
        (MtpState.UNSUPPORTED, True, True),
    }
    if (state, checkpoint is not None, architecture is not None) in sound:
        assert MtpCapability(state, checkpoint, architecture).state is state
        return
    with pytest.raises(CapabilityError, match=str(state)):
        MtpCapability(state, checkpoint, architecture)


@pytest.mark.parametrize(
    "value",
    [{}, {"state": "maybe"}, {"state": "ready"}, {"state": "ready", "checkpoint": "beside"}, [], None, "ready"],
)
def test_other_json_is_refused(value: Any) -> None:
    with pytest.raises(CapabilityError):
        MtpCapability.from_json(value)

"""Rotary settings in either form of config.json: what stood nested stands at the top too, and nothing is overruled."""

from __future__ import annotations

from typing import Any

import pytest

from eredu.checkpoints.rotary import with_flat_rotary

YARN = {"rope_type": "yarn", "rope_theta": 5e5, "factor": 4.0, "mscale": 1.0}


@pytest.mark.parametrize(
    ("config", "added"),
    [
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}}, {"rope_theta": 5e5}),
        ({"rope_parameters": {"rope_theta": 5e5}, "rope_theta": None}, {"rope_theta": 5e5}),
        (
            {"rope_parameters": {"type": "default", "rope_theta": 5e5, "partial_rotary_factor": 0.25}},
            {"rope_theta": 5e5, "partial_rotary_factor": 0.25},
        ),
        (
            {"rope_parameters": YARN},
            {"rope_theta": 5e5, "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "mscale": 1.0}},
        ),
        ({"rope_parameters": {"rope_theta": 5e5}, "rope_theta": 1e4}, {}),
        ({"rope_theta": 1e4}, {}),
        ({"rope_parameters": {"full_attention": {"rope_theta": 1e6}}}, {}),
        ({"rope_parameters": None}, {}),
    ],
)
def test_nested_settings_are_given_in_the_old_form_too(config: dict[str, Any], added: dict[str, Any]) -> None:
    assert with_flat_rotary(config) == {**config, **added}
    assert with_flat_rotary(with_flat_rotary(config)) == with_flat_rotary(config)


def test_the_decoder_of_a_nested_config_is_treated_alike() -> None:
    text = {"rope_parameters": {"rope_theta": 5e5}}
    assert with_flat_rotary({"text_config": text})["text_config"] == {**text, "rope_theta": 5e5}

"""Toy models whose next row is a function of what their cache holds, so that a stale or missing row is a wrong id."""

from eredu_reference.models.drafter import Drafter
from eredu_reference.models.echo import CacheLengthEcho, PositionEcho
from eredu_reference.models.hidden import HiddenModel, HiddenReader
from eredu_reference.models.model import Model, Output, feed, replay
from eredu_reference.models.padded import PaddedModel
from eredu_reference.models.pooled import PooledModel
from eredu_reference.models.recurrent import RunningSumModel
from eredu_reference.models.scripted import ScriptedModel
from eredu_reference.models.table import TableModel, random_rows
from eredu_reference.models.window import WindowModel

__all__ = [
    "CacheLengthEcho",
    "Drafter",
    "HiddenModel",
    "HiddenReader",
    "Model",
    "Output",
    "PaddedModel",
    "PooledModel",
    "PositionEcho",
    "RunningSumModel",
    "ScriptedModel",
    "TableModel",
    "WindowModel",
    "feed",
    "random_rows",
    "replay",
]

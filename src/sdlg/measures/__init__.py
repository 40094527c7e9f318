"""Measures of uncertainty: arithmetic on samples (no model, no input or output), and computing what it needs."""

from .base import Measure, MeasureInputs
from .samples import inputs_of

__all__ = ["Measure", "MeasureInputs", "inputs_of"]

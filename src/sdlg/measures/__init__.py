"""Measures of uncertainty: arithmetic on samples (no model, no input or output), and computing what it needs."""

from .base import Measure, MeasureInputs, as_measure, given, inputs_of

__all__ = ["Measure", "MeasureInputs", "as_measure", "given", "inputs_of"]

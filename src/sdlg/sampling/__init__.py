"""Samplers: each turns a question into sequences with the same record, `Sampled`."""

from .sdlg import Sampled, sample_sdlg

__all__ = ["SAMPLERS", "Sampled", "sample_sdlg"]

SAMPLERS = {"sdlg": sample_sdlg}

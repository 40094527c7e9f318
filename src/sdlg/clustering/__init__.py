"""From answers to clusters of meaning: when two answers mean the same, and how that makes clusters."""

from .clusters import Clusters, Judge, answer_key, cluster_answers, distinct_answers
from .pair_table import PairMemory, PairTable

__all__ = [
    "Clusters",
    "Judge",
    "PairMemory",
    "PairTable",
    "answer_key",
    "cluster_answers",
    "distinct_answers",
]

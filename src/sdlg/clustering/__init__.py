"""From answers to clusters of meaning: when two answers mean the same, and how that makes clusters (method.md §5)."""

from .clusters import Judge, answer_key, cluster_answers, distinct_answers

__all__ = ["Judge", "answer_key", "cluster_answers", "distinct_answers"]

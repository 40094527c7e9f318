"""Experiments: questions are answered, clustered, measured and judged; then read as tables, figures and risks."""

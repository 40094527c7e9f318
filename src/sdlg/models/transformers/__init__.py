"""Language models that run in this process, on transformers: one tree of keys and values under all branches."""

"""GGUF files as they are: a private llama-server (PyPI's xllamacpp), used through the engine for servers."""

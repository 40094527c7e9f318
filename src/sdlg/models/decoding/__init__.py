"""Decoding on trees of tokens, whatever runs them: paths, beams, prefixes that are kept between questions."""

"""EMOGI style: zero-copy traversals of edges in host memory (Min et al. 2020)."""

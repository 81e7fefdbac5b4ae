"""Scaph style: subgraphs of edges are read whole, or only their active rows, by their value (Zheng et al. 2020)."""

"""Graphs: the one data structure that engines run on, its file formats, generators and the catalogue of named graphs."""

from harness.graph.adjacency import Adjacency
from harness.graph.errors import GraphError
from harness.graph.graph import Duplicates, Graph

__all__ = ["Adjacency", "Duplicates", "Graph", "GraphError"]

"""Graphs: the data structure that engines run on, file formats, generators and the catalogue of named graphs.

An *edge* is what is stored: a directed pair of vertices. An undirected graph stores two edges for each pair.
"""

from harness.graph.adjacency import Adjacency
from harness.graph.cache import cached
from harness.graph.edges import Duplicates
from harness.graph.errors import GraphError
from harness.graph.formats import load_graph
from harness.graph.graph import Graph
from harness.graph.named import open_graph

__all__ = ["Adjacency", "Duplicates", "Graph", "GraphError", "cached", "load_graph", "open_graph"]

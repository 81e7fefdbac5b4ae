"""The built-in algorithms, registered through the same hook as those of plugins."""

from __future__ import annotations

from harness.contract import AlgorithmSpec
from harness.hookspecs import hookimpl


@hookimpl
def onyx_algorithms() -> list[AlgorithmSpec]:
    """Return the built-in algorithms."""
    return [
        AlgorithmSpec(
            "label_propagation",
            "label propagation with clamped seeds (Zhu & Ghahramani 2002)",
            "harness.algorithms.label_propagation:LabelPropagation",
        ),
        AlgorithmSpec(
            "pagerank", "PageRank, k personalised vectors as features", "harness.algorithms.pagerank:PageRank"
        ),
        AlgorithmSpec(
            "belief_propagation",
            "loopy belief propagation, sum-product or max-product: Markov networks, stereo pairs, noisy pictures",
            "harness.algorithms.belief_propagation:BeliefPropagation",
        ),
        AlgorithmSpec("als", "collaborative filtering by alternating least squares", "harness.algorithms.als:ALS"),
        AlgorithmSpec(
            "sgd_mf",
            "matrix factorisation by stochastic gradient descent: ratings update both of their ends in place",
            "harness.algorithms.sgd_mf:SGDMatrixFactorisation",
        ),
        AlgorithmSpec(
            "mf_gd",
            "matrix factorisation by full gradient descent: every vertex along the mean gradient of its ratings",
            "harness.algorithms.mf_gd:GradientDescentMatrixFactorisation",
        ),
        AlgorithmSpec(
            "manifold_ranking",
            "multi-manifold ranking of images by likeness to queries (Wang et al. 2013)",
            "harness.algorithms.manifold_ranking:ManifoldRanking",
        ),
        AlgorithmSpec(
            "multimodal",
            "multi-modality learning by linear fusion (Tong et al. 2005)",
            "harness.algorithms.multimodal:Multimodal",
        ),
        AlgorithmSpec(
            "feature_diffusion",
            "features diffused over a fixed number of hops (SGC, Wu et al. 2019): one sparse product a superstep",
            "harness.algorithms.feature_diffusion:FeatureDiffusion",
        ),
        AlgorithmSpec("hits", "hubs and authorities, k focused subgraphs as features", "harness.algorithms.hits:HITS"),
        AlgorithmSpec("bfs", "breadth-first levels from k sources as features", "harness.algorithms.bfs:BFS"),
        AlgorithmSpec("sssp", "shortest paths from k sources as features", "harness.algorithms.sssp:SSSP"),
        AlgorithmSpec("components", "(weakly) connected components", "harness.algorithms.components:Components"),
        AlgorithmSpec("mst", "the minimum spanning forest (Boruvka 1926)", "harness.algorithms.mst:MST"),
        AlgorithmSpec("kcore", "the k-core by peeling; its k is called core", "harness.algorithms.kcore:KCore"),
    ]

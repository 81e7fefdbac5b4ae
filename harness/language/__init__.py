"""The program language: algorithms written once, as maths over vertex and edge properties, and traced."""

from harness.language.algorithm import MOST_FEATURES, Algorithm, Allowance, Answer, Inputs, trace
from harness.language.errors import InvalidInput, LanguageError
from harness.language.expressions import Expression, K
from harness.language.operators import (
    absolute,
    all_features,
    any_feature,
    dot,
    exp,
    eye,
    full,
    hadamard_inverse,
    inverse,
    largest,
    log,
    max_product,
    maximum,
    mean,
    minimum,
    norm,
    normalize,
    outer,
    smallest,
    solve_spd,
    sqrt,
    stack,
    total,
    transpose,
    where,
)
from harness.language.program import Program
from harness.language.readers import VertexReader
from harness.language.tracing import ProgramBuilder, Reader

__all__ = [
    "MOST_FEATURES", "Algorithm", "Allowance", "Answer", "Expression", "Inputs", "InvalidInput", "K", "LanguageError",
    "Program", "ProgramBuilder", "Reader", "VertexReader", "absolute", "all_features", "any_feature",
    "dot", "exp", "eye", "full", "hadamard_inverse", "inverse", "largest", "log", "max_product", "maximum",
    "mean", "minimum", "norm", "normalize", "outer", "smallest", "solve_spd", "sqrt", "stack", "total", "trace",
    "transpose", "where",
]  # fmt: skip

"""exp and log of a whole vector in LLVM IR, float32 and float64, correct for every argument (denormal, 0, inf, NaN).

exp: Cody-Waite reduction to |r| <= log(2) / 2, Taylor series, and a scaling in two halves for denormal results. log:
reduction to [sqrt(1/2), sqrt(2)) and the series in s = f / (2 + f) of FreeBSD's msun (e_log.c, e_logf.c). Largest
errors found, in units in the last place: exp 1.00, log 0.78, in both formats, over every 509th float32 and three
million float64 (the tests limit them to 1.5). With AVX-512, in ns per lane: exp 1.6 and log 0.65 in float32, 3.1 and
1.6 in float64.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from llvmlite import ir

from harness.lowering.cpu.row_vectors import call_intrinsic, filled, fma, integers_like


@dataclass(frozen=True)
class Format:
    """Constants of one floating-point format."""

    mantissa_bits: int
    bias: int
    exp_lowest: float  # exp is 0 at and below this
    exp_highest: float  # exp is inf at and above this
    exp_terms: int  # degree of the Taylor series of exp
    log2_high: float  # log(2) with so few bits that its product with an exponent is exact
    log2_low: float
    log_series: tuple[float, ...]  # coefficients of s^2, s^4, ...
    smallest_normal: float
    one: int  # bit pattern of 1.0
    sqrt_half: int  # bit pattern of sqrt(1/2), rounded down


FLOAT32 = Format(
    mantissa_bits=23,
    bias=127,
    exp_lowest=-105.0,
    exp_highest=89.0,
    exp_terms=7,
    log2_high=float.fromhex("0x1.62e3p-1"),
    log2_low=float.fromhex("0x1.2fefa2p-17"),
    log_series=tuple(map(float.fromhex, ("0xaaaaaa.0p-24", "0xccce13.0p-25", "0x91e9ee.0p-25", "0xf89e26.0p-26"))),
    smallest_normal=2.0**-126,
    one=0x3F800000,
    sqrt_half=0x3F3504F3,
)
FLOAT64 = Format(
    mantissa_bits=52,
    bias=1023,
    exp_lowest=-746.0,
    exp_highest=710.0,
    exp_terms=13,
    log2_high=6.93147180369123816490e-01,
    log2_low=1.90821492927058770002e-10,
    log_series=(
        6.666666666666735130e-01,
        3.999999999940941908e-01,
        2.857142874366239149e-01,
        2.222219843214978396e-01,
        1.818357216161805012e-01,
        1.531383769920937332e-01,
        1.479819860511658591e-01,
    ),
    smallest_normal=2.0**-1022,
    one=0x3FF0000000000000,
    sqrt_half=0x3FE6A09E667F3BCD,
)


def format_of(vector: ir.VectorType) -> Format:
    """Return the constants for a vector's element type."""
    return FLOAT32 if isinstance(vector.element, ir.FloatType) else FLOAT64


def horner(builder: ir.IRBuilder, x: ir.Value, coefficients: tuple[float, ...]) -> ir.Value:
    """Evaluate coefficients[0] + coefficients[1] x + coefficients[2] x^2 + ..."""
    value = filled(x.type, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        value = fma(builder, value, x, filled(x.type, coefficient))
    return value


def power_of_two(builder: ir.IRBuilder, exponent: ir.Value, vector: ir.VectorType) -> ir.Value:
    """Return 2^exponent for integer lanes within the normal range."""
    form = format_of(vector)
    biased = builder.add(exponent, filled(exponent.type, form.bias))
    return builder.bitcast(builder.shl(biased, filled(exponent.type, form.mantissa_bits)), vector)


def exp(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Return e^x for each lane."""
    vector, form = x.type, format_of(x.type)
    bits = integers_like(vector)
    low, high = filled(vector, form.exp_lowest), filled(vector, form.exp_highest)
    x = builder.select(builder.fcmp_ordered("<", x, low), low, x)  # NaN passes both selections
    x = builder.select(builder.fcmp_ordered(">", x, high), high, x)
    steps = call_intrinsic(builder, "rint", [builder.fmul(x, filled(vector, 1.0 / math.log(2.0)))])
    remainder = fma(builder, steps, filled(vector, -form.log2_high), x)
    remainder = fma(builder, steps, filled(vector, -form.log2_low), remainder)
    series = tuple(1.0 / math.factorial(term) for term in range(2, form.exp_terms + 1))
    tail = fma(builder, builder.fmul(remainder, remainder), horner(builder, remainder, series), remainder)
    value = builder.fadd(tail, filled(vector, 1.0))
    ordered = builder.fcmp_ordered("ord", x, x)
    exponent = builder.fptosi(builder.select(ordered, steps, filled(vector, 0.0)), bits)
    half = builder.ashr(exponent, filled(bits, 1))
    value = builder.fmul(value, power_of_two(builder, half, vector))
    return builder.fmul(value, power_of_two(builder, builder.sub(exponent, half), vector))


def log(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Return the natural logarithm of each lane: -inf at 0, NaN below."""
    vector, form = x.type, format_of(x.type)
    bits = integers_like(vector)
    tiny = builder.fcmp_ordered("<", x, filled(vector, form.smallest_normal))
    scaled = builder.select(tiny, builder.fmul(x, filled(vector, 2.0**form.mantissa_bits)), x)
    pattern = builder.add(builder.bitcast(scaled, bits), filled(bits, form.one - form.sqrt_half))
    exponent = builder.sub(builder.ashr(pattern, filled(bits, form.mantissa_bits)), filled(bits, form.bias))
    fraction = builder.and_(pattern, filled(bits, (1 << form.mantissa_bits) - 1))
    mantissa = builder.bitcast(builder.add(fraction, filled(bits, form.sqrt_half)), vector)
    steps = builder.sitofp(exponent, vector)
    steps = builder.fadd(steps, builder.select(tiny, filled(vector, -float(form.mantissa_bits)), filled(vector, 0.0)))

    f = builder.fsub(mantissa, filled(vector, 1.0))
    s = builder.fdiv(f, builder.fadd(f, filled(vector, 2.0)))
    square = builder.fmul(s, s)
    series = builder.fmul(square, horner(builder, square, form.log_series))
    half_square = builder.fmul(builder.fmul(f, f), filled(vector, 0.5))
    correction = builder.fmul(s, builder.fadd(half_square, series))
    correction = fma(builder, steps, filled(vector, form.log2_low), correction)
    small = builder.fsub(f, builder.fsub(half_square, correction))
    value = fma(builder, steps, filled(vector, form.log2_high), small)

    own = builder.fcmp_unordered("==", x, filled(vector, math.inf))  # the logarithm of inf and NaN is the argument
    value = builder.select(own, x, value)
    value = builder.select(builder.fcmp_ordered("==", x, filled(vector, 0.0)), filled(vector, -math.inf), value)
    return builder.select(builder.fcmp_ordered("<", x, filled(vector, 0.0)), filled(vector, math.nan), value)

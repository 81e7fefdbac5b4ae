"""Names of kernels and of their arguments, made from user names: C++ has more reserved words than Python, and the
compiler accepts only ASCII.

An ordinary name is kept. Arrays and variables have a prefix or suffix on the user's name, so only names of kernels can
collide with those of C++, of CUDA, or of the templates.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.language.program import Program

KEYWORDS = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t char8_t class co_await
    co_return co_yield compl concept const const_cast consteval constexpr constinit continue decltype default delete do
    double dynamic_cast else enum explicit export extern false final float for friend goto if inline int long mutable
    namespace new noexcept not not_eq nullptr operator or or_eq override private protected public register
    reinterpret_cast requires return short signed sizeof static static_assert static_cast struct switch template this
    thread_local throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor
    xor_eq
    clock_t linux main restrict std typeof unix va_arg va_copy va_end va_list va_start
"""
# Functions of C and CUDA that are declared in every module; also with the suffix f or l.
FUNCTIONS = """
    abs acos acosh alloca asin asinh assert atan atan2 atanh calloc cbrt ceil clock clock64 copysign cos cosh cospi
    cyl_bessel_i0 cyl_bessel_i1 div erf erfc erfcinv erfcx erfinv exp exp10 exp2 expm1 fabs fdim fdivide floor fma fmax
    fmin fmod free frexp hypot ilogb isfinite isinf isnan j0 j1 jn labs ldexp ldiv lgamma llabs lldiv llmax llmin llrint
    llround log log10 log1p log2 logb lrint lround malloc max memcpy memset min modf nan nearbyint nextafter norm norm3d
    norm4d normcdf normcdfinv pow powi printf rcbrt realloc remainder remquo rhypot rint rnorm rnorm3d rnorm4d round
    rsqrt saturate scalbln scalbn signbit sin sincos sincospi sinh sinpi sqrt strcmp strcpy strlen tan tanh tgamma trunc
    ullmax ullmin umax umin vprintf y0 y1 yn
"""
# Of modules and templates, other than functions, which may have the same names. Functions that an engine adds have
# names that begin with a capital.
OWN = ["end_of_superstep", "unrolled"]
RESERVED = {*OWN, *KEYWORDS.split(), *(name + suffix for name in FUNCTIONS.split() for suffix in ("", "f", "l"))}
# Types and constants of CUDA; names that begin with a capital or an underscore, as those of the templates do.
BUILT_IN = re.compile(
    r"[A-Z_].*|(thread|block)Idx|(block|grid)Dim|warpSize|dim3|(cuda|atomic|make_).*"
    r"|u?(char|short|int|long|longlong|float|double)[1-4](_\w+)?|u?int(_fast|_least|ptr|max)?\d*_t|(size|ptrdiff)_t"
)


def propagated_tolerance(program: Program) -> str:
    """Return the name, which no parameter of the program has, of the number after the program's own parameters.

    The number is the share of the tolerance beyond which a change is propagated. Multiplying it in the kernel instead
    costs a register, for which the compiler spills others.
    """
    name = "propagated_tolerance"
    while name in program.parameters:
        name += "_"
    return name


def parameter_names(program: Program) -> tuple[str, ...]:
    """Return the names of the array ``parameters`` of a module, in its order."""
    own = tuple(program.parameters)
    return own if program.control.tolerance is None else (*own, propagated_tolerance(program))


def in_ascii(text: str) -> str:
    """Return generated code, or a name in it, with every non-ASCII letter replaced by its number; comments are kept."""
    if text.isascii():
        return text
    lines = (line.partition("//") for line in text.split("\n"))
    return "\n".join(_spelt(code) + slashes + comment for code, slashes, comment in lines)


def _spelt(code: str) -> str:
    return re.sub(r"[^\x00-\x7f]", lambda letter: f"_u{ord(letter[0]):04x}_", code)


def kernel_name(name: str) -> str:
    """Return the name of a kernel called ``name``, with an underscore appended if the name has another meaning."""
    name = in_ascii(name)
    return f"{name}_" if name in RESERVED or BUILT_IN.fullmatch(name) else name

"""The memory layout of properties."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.language.expressions import K
from harness.lowering.layout import LINE, Layout, aligned_zeros, row_stride

SHAPES = ((), (K,), (3,), (3, K), (K, K), (K, 2), (20,))


@given(st.integers(0, 6), st.integers(1, 70), st.sampled_from(SHAPES), st.sampled_from(["f4", "f8", "?"]))
def test_unpack_undoes_pack(count, features, shape, dtype):
    layout = Layout(features)
    dims = layout.dims(shape)
    values = (np.random.default_rng(count).standard_normal((count, *dims)) > 0.3).astype(dtype)
    flat = layout.pack(values, shape)
    assert flat.ndim == 1
    assert flat.dtype == (np.bool_ if dtype == "?" else np.float32)
    assert flat.shape == (count * layout.stride(shape),)
    assert flat.flags.c_contiguous
    back = layout.unpack(flat, shape)
    assert back.shape == values.shape
    assert np.array_equal(back, values)
    assert not np.shares_memory(back, flat)
    assert not np.shares_memory(flat, values)


@given(st.integers(1, 256))
def test_long_rows_are_padded_no_further_than_a_line(lanes):
    stride = row_stride(lanes)
    assert lanes <= stride < lanes + LINE
    if lanes <= LINE:
        assert stride == lanes
    else:
        assert stride % (LINE // 2) == 0


def test_padding_is_zero():
    layout = Layout(33)
    flat = layout.pack(np.full((4, 33), 7.0, np.float32), (K,))
    assert (flat.reshape(4, -1)[:, 33:] == 0).all()
    assert layout.stride((K,)) > 33
    assert layout.stride((2, K)) == 2 * layout.stride((K,))


@pytest.mark.parametrize("count", [0, 1, 7, 1000])
@pytest.mark.parametrize("dtype", [np.float32, np.bool_, np.int64])
def test_arrays_start_on_cache_lines(count, dtype):
    array = aligned_zeros(count, dtype)
    assert array.shape == (count,)
    assert array.dtype == dtype
    assert count == 0 or array.ctypes.data % 64 == 0
    assert not array.any()

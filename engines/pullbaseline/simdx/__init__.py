"""SIMD-X style: Active - Compute - Combine, pulling without atomics (Liu & Huang 2019)."""

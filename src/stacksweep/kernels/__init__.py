"""The model as numba kernels: pure functions of numbers that serve one point and a million alike."""

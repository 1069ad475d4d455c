"""Benchmarks that need a GPU; `device.h` is for the C++ ones."""

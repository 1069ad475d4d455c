"""Samples of several arrays in one pipeline, beside what users would otherwise do. Each module is a program."""

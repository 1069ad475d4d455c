"""Samples of several arrays in one pipeline, compared with what users would otherwise do. Each module is a program."""

"""Plots from recorded results."""

"""Passes over data whose chunks are kept in memory, beside other readers."""

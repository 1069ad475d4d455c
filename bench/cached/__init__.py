"""Passes over data whose chunks are kept in memory, compared with other readers."""

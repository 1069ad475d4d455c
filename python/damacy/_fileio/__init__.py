"""Implements `damacy.cufile` and `damacy.defaults`: files, requests, errors, and memory of other libraries."""

"""Implements `damacy.DeviceArray`: arrays, their memory, and the protocols for exchange with other libraries."""

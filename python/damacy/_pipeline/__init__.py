"""Implements the pipeline: samples, configuration, batches, statistics, and parts of training without a framework.
Users import these names from `damacy` and `damacy.training`."""

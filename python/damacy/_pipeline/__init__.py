"""Behind the pipeline: samples, configuration, batches, statistics, and the parts of training that need no framework.
Users import these names from `damacy` and `damacy.training`."""

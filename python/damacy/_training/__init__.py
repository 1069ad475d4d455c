"""Behind `damacy.training`: how the samples of an epoch are divided among steps and ranks."""

"""Behind `damacy.stitch`: where windows lie, their weights, sums, and the output."""

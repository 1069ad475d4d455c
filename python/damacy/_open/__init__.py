"""What `damacy.open` returns: arrays, images, groups and plates, with their elements on demand."""

"""The commands of `damacy`, one module each, and what they share: console, text of boxes, output files, PNG."""

"""The commands of `damacy`, one module each, and the modules that they share: console, boxes, output files, PNG."""

"""The benchmark: named scenarios, the peers they are measured against, and the ceilings of the machine."""

"""What all modules of the package share: errors, element types, integers, sizes, log records, streams, the machine.

Imports none of the other folders."""

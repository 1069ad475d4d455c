"""Two checkouts of the repository, measured by turns."""

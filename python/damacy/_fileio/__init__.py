"""Behind `damacy.cufile` and `damacy.defaults`: files, requests, errors, and memory that other libraries hand over."""

"""Stores of other libraries: mounting them under a prefix of uris, and answering the native library's requests."""

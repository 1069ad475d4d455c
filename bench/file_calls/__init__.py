"""What one small request costs; `main.cpp` is the same from C++."""

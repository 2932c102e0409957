"""The CUDA C++ layer that the Hopper and Blackwell kernels stand on (`*.cuh`), and the tensor maps of their copies."""

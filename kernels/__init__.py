"""Attention kernels over paged memory: plain torch, Triton and CUDA. Installed as `minipaged.kernels`."""

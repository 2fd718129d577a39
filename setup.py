"""The one thing pyproject.toml cannot say: the folder kernels/ is the package minipaged.kernels.

It stands at the root, where a reader looks for the CUDA and Triton files, and must never answer a plain
`import kernels`: a package of that name exists and other libraries look for it.
"""
from setuptools import find_packages, setup

setup(
    packages=[
        *find_packages(include=["minipaged", "minipaged.*"]),
        "minipaged.kernels",
        *(f"minipaged.kernels.{name}" for name in find_packages("kernels")),
    ],
    package_dir={"minipaged.kernels": "kernels"},
)

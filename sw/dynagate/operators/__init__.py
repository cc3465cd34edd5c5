"""Functions of a robot as differentiable operators, independent of the framework that calls them and of the
executor.
"""

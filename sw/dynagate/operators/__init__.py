"""Functions of a robot as differentiable operators, whatever framework calls them and whatever computes them."""

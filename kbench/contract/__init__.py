"""What an operator is: named tensors, scalars, a reference, and the providers that compute it."""

"""The reference interpreter: every value in NumPy, float types as float64; slow and accurate."""

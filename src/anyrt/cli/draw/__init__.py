"""Drawings of plans: the content (`picture`), the layout (`layered`, `place`), the output (`svg`), the times
of kernels (`times`)."""

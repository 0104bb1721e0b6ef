"""Pictures of plans: what there is to draw (`picture`), where it goes (`layered`, `place`), how it is written
(`svg`), how long kernels take (`times`)."""

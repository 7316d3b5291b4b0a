"""Membership in consumer groups without clock and network: both protocols, and the assignors of the classic one."""

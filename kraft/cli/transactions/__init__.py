"""`kraft transactions`: transactional ids, the producers of partitions, and hanging transactions."""

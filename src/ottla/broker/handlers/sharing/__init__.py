"""What members of share groups ask of the leaders of partitions."""

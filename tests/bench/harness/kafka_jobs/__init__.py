"""What reads and writes topics: subjects of rows_kafka.py."""

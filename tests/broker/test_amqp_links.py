"""The suites of test_amqp.py of connections that end."""
from test_amqp import main

if __name__ == "__main__":
    main("links")

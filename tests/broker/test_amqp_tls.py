"""The suites of test_amqp.py of permissions and TLS."""
from test_amqp import main

if __name__ == "__main__":
    main("denied", "tls")

"""From send() to a produce request and back."""

"""Requests about who may do what: logins, credentials, tokens, access rules."""

"""Connections to databases, as savers, stores and caches share them: opening, transactions, errors, migrations."""

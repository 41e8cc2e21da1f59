"""Recall: finding again anything that was ever said in a space.

`sayings` says what of a log can be found, `words` how a text is indexed and which words a question looks for,
`question` what else a question says (of whom, when), `scoring` what comes first, and `meaning` where vectors
count, too. Pure; the index is a store.
"""

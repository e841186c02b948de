"""`ccp evaluate` and `ccp compare`: what a congestion control does, by the criteria of RFC 9743.

`controllers` resolves the names on the command line, `paths`, `criteria` and `cases` describe the scenarios,
`measures` reads their results, `running` runs them, `effects` compares controllers, `evaluation` is the
outcome as data, `words` says it in sentences, and `screen`, `markdown` and `page` show it. `comparing` ranks
several controllers, `agreement` compares simulator and real sockets, and `baseline` compares an evaluation
with an earlier one.

Nothing else imports this package, which imports neither papers nor the validation of the simulator: a wheel
has it without them.
"""

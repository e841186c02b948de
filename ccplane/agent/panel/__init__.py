"""A live panel for a notebook: `client.panel()`.

The front end (`front/`, JavaScript in the browser) draws. The back end (here, in the notebook's kernel) polls
the agent ten times per second, and sends arrays over the notebook's own connection, so it also works with a
remote kernel.

`panel` connects the other modules: `gather` polls, `samples` stores, `feed` sends, and `worker` executes
requests of the user. The panel needs anywidget (`pip install 'ccplane[notebooks]'`).
"""

"""A live panel for a notebook: `client.panel()`.

The front end (`front/`, JavaScript in the browser) draws; the back end (here, in the notebook's kernel) asks
the agent ten times a second, and sends what it learnt as arrays over the notebook's own connection. So
nothing but that connection is needed, wherever the kernel is.

`panel` ties the parts together, `gather` asks, `samples` keeps, `feed` sends, `worker` does what the user
asks for. Needs anywidget: `pip install 'ccplane[notebooks]'`.
"""

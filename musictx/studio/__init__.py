"""``musictx studio``: a page in the browser, served by this machine, for composing.

program      the command: serves the page, opens the browser, stops cleanly
app          the HTTP routes; guard: which requests are answered
document     the music that a page shows; change: one operation on it, checked
session      a document and its history, and the folder of all sessions; store: both in SQLite,
             written before an operation is acknowledged
exchange     files and Scores as documents, and back; exports: writes files; original: writes into
             the file that was opened
events       messages to the pages (server-sent events)
composer     the thread that composes, and its queue; models: the tasks of each model
request      a request of a page, and its command line; inputs: the input file of a take
performing   composes a take, and converts results into changes of the document
takes        requests with their results, on disk; the change that accepts a proposal
training     ``musictx train`` in a separate process, started from the page
"""

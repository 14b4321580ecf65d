"""``musictx studio``: a page in the browser, served by this machine, where music is made by
selecting.

program      the command: serves, opens the browser, stops cleanly
app          the routes; guard: which requests are answered
document     the music that a page shows; change: one operation on it, checked
session      a document and its history; store: both in SQLite, written before an operation is
             acknowledged; sessions: the folder of all sessions
exchange     Score <-> document; uploads: reads files; exports: writes files; original: writes
             into the file that the document was made from
events       messages to the pages (server-sent events)
composer     the thread that composes, and its queue; models: what each model can do
request      a request of a page, and its command line; inputs: the file that is composed from
performing   calls the commands, reports notes and progress, makes a result a change of the
             document
takes        requests with their results, on disk
training     ``musictx train`` in a process, from the page
"""

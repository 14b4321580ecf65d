"""``musictx studio``: a page in the browser, served by this machine, where music is made by
selecting.

program      the command: serves, opens the browser, stops cleanly
app          the routes; guard: which requests are answered
document     the music that a page shows, and its operations; change: one operation, checked
session      a document and its history; store: both in SQLite, written before they are
             acknowledged; sessions: the folder of all
exchange     Score <-> document; uploads: files in; exports: files out; original: into the file
             that the document began with
events       messages to the pages (server-sent events)
composer     the thread that composes, and its queue; models: what each model can do
request      what a page requests, and its command line; inputs: the file that it is computed from
performing   the calls of the commands, their notes and progress; a result as a change of the
             document
takes        requests with their results, on disk
training     ``musictx train`` in a process, from the page
"""

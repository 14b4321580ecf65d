"""``musictx studio``: a page on one's own machine where music is made by selecting.

program    the command: listens, opens the browser, stops cleanly
app        the routes; guard: who may ask, and what every answer carries; requests: what one brings
document   the music that a page shows, and its operations; change: one operation, checked
journal    operations on disk, each there before it is acknowledged
session    a document and its journal; sessions: the folder of all
exchange   Score <-> document; uploads: files in; exports: files out
events     what pages are told while things happen
composer   the thread that composes; queue: whose turn it is; models: what each can do
asked      what a page asks for, and its command line; inputs: the file it is computed from
performing the calls of the commands, several takes at once; listening: what they tell on the way
takes      what came of it, on disk
"""

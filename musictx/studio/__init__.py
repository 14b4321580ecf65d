"""``musictx studio``: a page on one's own machine where music is made by selecting.

program    the command: listens, opens the browser, stops cleanly
app        the routes; guard: who may ask, and what every answer carries
document   the music that a page shows, and its operations; change: one operation, checked
journal    operations on disk, each there before it is acknowledged; session: both together
exchange   Score <-> document, and files out of it
events     what pages are told while things happen
"""

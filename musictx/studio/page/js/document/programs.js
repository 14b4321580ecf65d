/** Names of the instruments of General MIDI, by program number. */

const FAMILIES = `
Grand piano|Bright piano|Electric grand|Honky-tonk piano|Electric piano 1|Electric piano 2|Harpsichord|Clavinet
Celesta|Glockenspiel|Music box|Vibraphone|Marimba|Xylophone|Tubular bells|Dulcimer
Drawbar organ|Percussive organ|Rock organ|Church organ|Reed organ|Accordion|Harmonica|Bandoneon
Nylon guitar|Steel guitar|Jazz guitar|Clean guitar|Muted guitar|Overdriven guitar|Distorted guitar|Guitar harmonics
Acoustic bass|Fingered bass|Picked bass|Fretless bass|Slap bass 1|Slap bass 2|Synth bass 1|Synth bass 2
Violin|Viola|Cello|Double bass|Tremolo strings|Pizzicato strings|Harp|Timpani
Strings 1|Strings 2|Synth strings 1|Synth strings 2|Choir|Voice oohs|Synth voice|Orchestra hit
Trumpet|Trombone|Tuba|Muted trumpet|French horn|Brass section|Synth brass 1|Synth brass 2
Soprano saxophone|Alto saxophone|Tenor saxophone|Baritone saxophone|Oboe|English horn|Bassoon|Clarinet
Piccolo|Flute|Recorder|Pan flute|Blown bottle|Shakuhachi|Whistle|Ocarina
Square lead|Sawtooth lead|Calliope lead|Chiff lead|Charang lead|Voice lead|Fifths lead|Bass and lead
New age pad|Warm pad|Polysynth pad|Choir pad|Bowed pad|Metallic pad|Halo pad|Sweep pad
Rain|Soundtrack|Crystal|Atmosphere|Brightness|Goblins|Echoes|Science fiction
Sitar|Banjo|Shamisen|Koto|Kalimba|Bagpipe|Fiddle|Shanai
Tinkle bell|Agogo|Steel drums|Woodblock|Taiko drum|Melodic tom|Synth drum|Reverse cymbal
Guitar fret noise|Breath noise|Seashore|Bird|Telephone|Helicopter|Applause|Gunshot`;

/** 128 names. */
export const PROGRAMS = FAMILIES.trim().split(/[|\n]/);

/** The player: the piece or a proposal, from any time or in a loop; single notes; the metronome. */

import { channelsOf, clickEvents, heldEvents, METRONOME, noteEvents, pedalEvents, prepareNotes, pedalStates } from "./schedule.js";
import { controllers } from "../document/mixer.js";
import { createOutput } from "./output.js";
import { Transport } from "./transport.js";

const LEAD = 0.08; // seconds from the command to the first note
const AHEAD = 0.25; // seconds scheduled ahead
const AHEAD_HIDDEN = 2.5; // the same in a hidden page, whose timers run once a second
const TICK = 60; // milliseconds between two calls of the scheduler
const TAIL = 1.0; // seconds that the playhead continues after the last note
const PREVIEW = 0.35; // seconds of a single note
const NO_SOUND = 3000; // milliseconds after which a context that does not run is reported

/** @typedef {{notes: Map<number, Ghost> | Ghost[], tracks: {id: number, program: number, drum: boolean}[], pedals?: number[][], beats?: number[][]}} Music */
/**
 * @typedef PlayOptions
 * @property {() => Music} [music] instead of the document; called at every tick, since it may grow
 * @property {[number, number] | null} [loop] seconds of the document
 * @property {number} [end] where to stop (Infinity: never); default: after the last note
 * @property {() => number} [edge] the time up to which notes have been composed; playback waits there
 * @property {number[]} [countIn] clicks, in seconds before the start, the largest first
 * @property {{take: number, proposal: number}} [proposal] identifies the proposal to the server, for browsers without the synthesiser
 */

/**
 * @param {{getDocument: () => any, onPosition: (seconds: number) => void, onState: (state: string, why?: string) => void}} page
 *     onState gets "loading", "playing", "waiting" or "stopped"; "file" if the server's sound file replaces the
 *     synthesiser; "deaf" if the audio output does not run
 */
export function createPlayer({ getDocument, onPosition, onState }) {
  const output = createOutput();
  let state = "stopped";
  let run = null; // what is playing
  let attempts = 0; // number of calls of play and stop: tells a play that is loading that it was stopped
  let metronome = false;
  /** The tracks of the document, as they are mixed. @type {any[]} */
  let tracks = [];
  let cursor = 0;

  function setState(next, why) {
    if (next !== state) onState((state = next), why);
  }

  /** Load the instruments of the tracks, and return the tracks' channels. */
  async function arrange(music, synth) {
    const channels = channelsOf(music.tracks);
    await Promise.all([
      synth.setChannel(METRONOME, 0, true),
      ...music.tracks.map((track) => synth.setChannel(channels.get(track.id), track.program, track.drum)),
    ]);
    mix(synth, channels);
    return channels;
  }

  /** Send volume, pan and reverb of each channel; tracks that are not in the document have the defaults. */
  function mix(synth, channels) {
    const ids = new Set(tracks.map((track) => track.id));
    const all = controllers([...tracks, ...[...channels.keys()].filter((id) => !ids.has(id)).map((id) => ({ id }))]);
    synth.send([...channels].flatMap(([id, channel]) => (all.get(id) ?? []).map(([number, value]) => [0, channel, 0xb0, number, value])));
  }

  async function play(from = cursor, /** @type {PlayOptions} */ options = {}) {
    stop();
    const attempt = ++attempts;
    const music = options.music ?? getDocument;
    const loop = options.loop ?? null;
    setState("loading");
    const synth = await output.synth();
    if (attempt !== attempts) return;
    if (!synth) {
      onState("file", output.failure);
      run = playFile(getDocument().id, from, { ...options, loop, volume: output.volume }, setState, stop);
      frame();
      return;
    }
    let { tracks: playing } = music();
    let channels = await arrange(music(), synth);
    if (attempt !== attempts) return;
    const clicks = options.countIn ?? [];
    const now = output.context.currentTime + LEAD;
    const transport = new Transport(from, now + (clicks[0] ?? 0), loop);
    synth.send(clicks.flatMap((before, i) => clickEvents([[now + clicks[0] - before, 0, i === 0 ? 1 : 2]], 0, Infinity)));

    let previous = null, sorted = [], last = 0, isStart = true;
    /** Notes that have started and have no end yet. */
    let open = [];
    const tick = () => {
      const current = music();
      if (current.notes !== previous) {
        previous = current.notes;
        const all = [...previous.values()];
        sorted = prepareNotes(all);
        last = sorted.reduce((end, note) => Math.max(end, note.end), 0) + TAIL;
        const present = new Set(all);
        open = open.filter(({ source, channel, pitch, offset }) => {
          if (source.end === null && present.has(source)) return true;
          synth.send([[source.end === null ? 0 : source.end + offset, channel, 0x80, pitch, 0]]);
          return false;
        });
      }
      if (current.tracks !== playing) {
        playing = current.tracks;
        arrange(current, synth).then((arranged) => { channels = arranged; });
      }
      const pedals = current.pedals ?? [];
      const edge = options.edge?.() ?? Infinity;
      const time = output.context.currentTime;
      const limit = Math.min(edge, transport.loop ? Infinity : options.end ?? Infinity);
      const events = [];
      const windows = transport.take(time + (document.hidden ? AHEAD_HIDDEN : AHEAD), limit);
      for (const { from: a, to: b, offset, stop: cut } of windows) {
        const inWindow = [
          // The pedal may be down at the end of a loop and up at its start.
          ...(isStart || a === transport.loop?.[0] ? pedalStates(pedals, channels, a) : []),
          ...(isStart ? heldEvents(sorted, channels, a, cut) : []),
          ...noteEvents(sorted, channels, a, b, Math.min(cut, options.end ?? Infinity), open),
          ...pedalEvents(pedals, channels, a, b),
          ...(metronome ? clickEvents(current.beats ?? [], a, b) : []),
        ];
        events.push(...inWindow.map(([at, ...rest]) => [at + offset, ...rest]));
        for (const note of open) note.offset ??= offset;
        isStart = false;
      }
      synth.send(events);
      const place = transport.at(time);
      if (place >= edge - 0.02 && edge < Infinity) {
        transport.hold(edge, time + LEAD);
        setState("waiting");
      } else {
        setState("playing");
      }
      if (!transport.loop && place >= (options.end ?? (edge === Infinity ? last : Infinity))) stop();
    };
    const timer = setInterval(tick, TICK);
    run = {
      loop: transport.loop,
      position: () => transport.at(output.audible()),
      at: (performanceTime) => transport.at(output.audible(performanceTime)),
      retune: () => mix(synth, channels),
      end() {
        clearInterval(timer);
        synth.silence();
      },
    };
    const thisRun = run;
    setTimeout(() => run === thisRun && output.context.state !== "running" && onState("deaf"), NO_SOUND);
    tick();
    frame();
  }

  /** Report the position at every animation frame of a run. */
  function frame(thisRun = run) {
    if (!thisRun || thisRun !== run) return;
    cursor = run.position();
    onPosition(cursor);
    requestAnimationFrame(() => frame(thisRun));
  }

  function stop() {
    attempts++;
    if (run) {
      cursor = run.position();
      run.end();
    }
    run = null;
    setState("stopped");
  }

  /** Press a key of a track or, with velocity 0, release it. */
  async function key(trackId, pitch, velocity = 0) {
    const { synth, channel } = await voice(trackId);
    synth?.send([[0, channel, velocity ? 0x90 : 0x80, pitch, velocity]]);
  }

  async function voice(trackId) {
    const synth = await output.synth();
    const { tracks } = getDocument() ?? { tracks: [] };
    const track = tracks.find(({ id }) => id === trackId) ?? { id: 0, program: 0, drum: false };
    const channel = channelsOf(tracks).get(track.id) ?? 1;
    await synth?.setChannel(channel, track.program, track.drum);
    return { synth, channel };
  }

  return {
    play,
    stop,
    get playing() { return run !== null; },
    /** The loop that plays now. */
    get loop() { return run?.loop ?? null; },
    get state() { return state; },
    /** The time of the document that sounds, or at which playback stopped. */
    get position() { return run ? run.position() : cursor; },
    set position(/** @type {number} */ seconds) { cursor = seconds; },
    /** Return the time of the document that sounded at a time of `performance.now()`. */
    at: (/** @type {number} */ performanceTime) => (run?.at ? run.at(performanceTime) : cursor),
    /** Play a short note. */
    async audition(pitch, velocity, track) {
      const { synth, channel } = await voice(track);
      const now = output.context?.currentTime ?? 0;
      synth?.send([[now, channel, 0x90, pitch, velocity], [now + PREVIEW, channel, 0x80, pitch, 0]]);
    },
    key,
    /** Press or release the sustain pedal of a track. */
    async pedal(trackId, down) {
      const { synth, channel } = await voice(trackId);
      synth?.send([[0, channel, 0xb0, 64, down ? 127 : 0]]);
    },
    get metronome() { return metronome; },
    set metronome(on) { metronome = on; },
    get volume() { return output.volume; },
    set volume(/** @type {number} */ share) { output.volume = share; },
    /** Set the mixer values of the document's tracks: see document/mixer.js. */
    setMix(/** @type {any[]} */ mixed) {
      const before = JSON.stringify([...controllers(tracks)]);
      tracks = mixed;
      if (before !== JSON.stringify([...controllers(tracks)])) run?.retune?.();
    },
    /** Load the synthesiser; must be called from a click or key. */
    prepare: () => output.synth(),
  };
}

/**
 * Play the WAV export of a session, for browsers that cannot run the synthesiser. Return an object like `run` above.
 * @param {string} session
 * @param {number} from
 * @param {{loop?: [number, number] | null, end?: number, volume: number, proposal?: {take: number, proposal: number}}} options
 */
function playFile(session, from, { loop, end, volume, proposal }, onState, onEnd) {
  const begin = loop ? loop[0] : from;
  const query = new URLSearchParams({ begin: String(begin) });
  if (loop || end !== undefined) query.set("end", String(loop ? loop[1] : end));
  if (proposal) {
    query.set("take", String(proposal.take));
    query.set("proposal", String(proposal.proposal));
  }
  const audio = new Audio(`/api/sessions/${encodeURIComponent(session)}/export/sound.wav?${query}`);
  audio.loop = Boolean(loop);
  audio.volume = volume ** 2;
  audio.currentTime = loop && from > loop[0] && from < loop[1] ? from - begin : 0;
  audio.onplaying = () => onState("playing");
  audio.onwaiting = () => onState("loading");
  audio.onended = audio.onerror = onEnd;
  audio.play().catch(onEnd);
  return {
    position: () => begin + audio.currentTime,
    end() {
      audio.onended = audio.onerror = null;
      audio.pause();
      audio.removeAttribute("src");
    },
  };
}

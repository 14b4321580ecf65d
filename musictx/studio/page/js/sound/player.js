// Playing: the document or a proposal, from a moment, in a loop; single notes; the metronome.
import { channelsOf, clickEvents, heldEvents, METRONOME, noteEvents, pedalEvents, prepareNotes, pedalStates } from "./schedule.js";
import { controllers } from "../document/mixer.js";
import { createOutput } from "./output.js";
import { Transport } from "./transport.js";

const LEAD = 0.08; // seconds from the command to the first note
const AHEAD = 0.25; // seconds that are scheduled ahead; a hidden page wakes once a second only
const AHEAD_HIDDEN = 2.5;
const TICK = 60; // milliseconds
const TAIL = 1.0; // seconds that the playhead goes on after the last note
const PREVIEW = 0.35;
const DEAF = 3000; // milliseconds without a clock after which the page says that nothing sounds

/** @typedef {{notes: Map<number, Ghost> | Ghost[], tracks: {id: number, program: number, drum: boolean}[], pedals?: number[][], beats?: number[][]}} Music */
/**
 * @typedef PlayOptions
 * @property {() => Music} [music] instead of the document; asked again and again, so that notes may still come
 * @property {[number, number] | null} [loop] seconds of the document
 * @property {number} [end] where to stop, Infinity for never; else after the last note
 * @property {() => number} [edge] up to where notes have been composed; the music waits there
 * @property {number[]} [countIn] seconds before the start at which it clicks, the largest first
 * @property {{take: number, proposal: number}} [proposal] for machines without the synthesiser
 */

/**
 * @param {{getDocument: () => any, onPosition: (seconds: number) => void, onState: (state: string, why?: string) => void}} page
 *     onState gets "loading", "playing", "waiting", "stopped" and, once, "file" where there is no synthesiser,
 *     "deaf" where there is no way to the loudspeakers
 */
export function createPlayer({ getDocument, onPosition, onState }) {
  const output = createOutput();
  let state = "stopped";
  let run = null; // what is playing
  let started = 0; // counts plays, so that a stop while loading holds
  let metronome = false;
  /** The tracks of the document, as they are mixed. @type {any[]} */
  let tracks = [];
  let cursor = 0;

  function become(next, why) {
    if (next !== state) onState((state = next), why);
  }

  /** The instruments of the tracks, ready to sound; returns their channels. */
  async function arrange(music, synth) {
    const channels = channelsOf(music.tracks);
    await Promise.all([
      synth.setChannel(METRONOME, 0, true),
      ...music.tracks.map((track) => synth.setChannel(channels.get(track.id), track.program, track.drum)),
    ]);
    mix(synth, channels);
    return channels;
  }

  /** Volume, pan and reverb of each channel; those of new tracks are as usual. */
  function mix(synth, channels) {
    const ids = new Set(tracks.map((track) => track.id));
    const all = controllers([...tracks, ...[...channels.keys()].filter((id) => !ids.has(id)).map((id) => ({ id }))]);
    synth.send([...channels].flatMap(([id, channel]) => (all.get(id) ?? []).map(([number, value]) => [0, channel, 0xb0, number, value])));
  }

  async function play(from = cursor, /** @type {PlayOptions} */ options = {}) {
    stop();
    const mine = ++started;
    const ask = options.music ?? getDocument;
    const loop = options.loop ?? null;
    become("loading");
    const synth = await output.synth();
    if (mine !== started) return;
    if (!synth) {
      onState("file", output.failure);
      run = playFile(getDocument().id, from, { ...options, loop, volume: output.volume }, become, stop);
      frame();
      return;
    }
    let { tracks: playing } = ask();
    let channels = await arrange(ask(), synth);
    if (mine !== started) return;
    const clicks = options.countIn ?? [];
    const now = output.context.currentTime + LEAD;
    const transport = new Transport(from, now + (clicks[0] ?? 0), loop);
    synth.send(clicks.flatMap((before, i) => clickEvents([[now + clicks[0] - before, 0, i === 0 ? 1 : 2]], 0, Infinity)));

    let previous = null, sorted = [], last = 0, held = true;
    /** Notes that began and have no end yet. */
    let open = [];
    const tick = () => {
      const current = ask();
      if (current.notes !== previous) {
        previous = current.notes;
        const all = [...previous.values()];
        sorted = prepareNotes(all);
        last = sorted.reduce((end, note) => Math.max(end, note.end), 0) + TAIL;
        const there = new Set(all);
        open = open.filter(({ source, channel, pitch, offset }) => {
          if (source.end === null && there.has(source)) return true;
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
          // A pedal that is down at the end of a loop need not be so at its beginning.
          ...(held || a === transport.loop?.[0] ? pedalStates(pedals, channels, a) : []),
          ...(held ? heldEvents(sorted, channels, a, cut) : []),
          ...noteEvents(sorted, channels, a, b, Math.min(cut, options.end ?? Infinity), open),
          ...pedalEvents(pedals, channels, a, b),
          ...(metronome ? clickEvents(current.beats ?? [], a, b) : []),
        ];
        events.push(...inWindow.map(([at, ...rest]) => [at + offset, ...rest]));
        for (const note of open) note.offset ??= offset;
        held = false;
      }
      synth.send(events);
      const place = transport.at(time);
      if (place >= edge - 0.02 && edge < Infinity) {
        transport.hold(edge, time + LEAD);
        become("waiting");
      } else {
        become("playing");
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
    const attempt = run;
    setTimeout(() => run === attempt && output.context.state !== "running" && onState("deaf"), DEAF);
    tick();
    frame();
  }

  function frame(mine = run) {
    if (!mine || mine !== run) return;
    cursor = run.position();
    onPosition(cursor);
    requestAnimationFrame(() => frame(mine));
  }

  function stop() {
    started++;
    if (run) {
      cursor = run.position();
      run.end();
    }
    run = null;
    become("stopped");
  }

  /** A key of a track goes down or, without velocity, up. */
  async function key(trackId, pitch, velocity = 0) {
    const { synth, channel } = await voice(trackId);
    synth?.send([[0, channel, velocity ? 0x90 : 0x80, pitch, velocity]]);
  }

  async function voice(trackId) {
    const synth = await output.synth();
    const { tracks } = getDocument() ?? { tracks: [] };
    const track = tracks.find((one) => one.id === trackId) ?? { id: 0, program: 0, drum: false };
    const channel = channelsOf(tracks).get(track.id) ?? 1;
    await synth?.setChannel(channel, track.program, track.drum);
    return { synth, channel };
  }

  return {
    play,
    stop,
    get playing() { return run !== null; },
    /** The stretch that is repeated now. */
    get loop() { return run?.loop ?? null; },
    get state() { return state; },
    /** The moment of the document that sounds, or where it was stopped. */
    get position() { return run ? run.position() : cursor; },
    set position(/** @type {number} */ seconds) { cursor = seconds; },
    /** The moment of the document that sounded at a time of `performance.now()`, for recording. */
    at: (/** @type {number} */ performanceTime) => (run?.at ? run.at(performanceTime) : cursor),
    /** One note, briefly. */
    async audition(pitch, velocity, track) {
      const { synth, channel } = await voice(track);
      const now = output.context?.currentTime ?? 0;
      synth?.send([[now, channel, 0x90, pitch, velocity], [now + PREVIEW, channel, 0x80, pitch, 0]]);
    },
    key,
    /** The sustain pedal of a track. */
    async pedal(trackId, down) {
      const { synth, channel } = await voice(trackId);
      synth?.send([[0, channel, 0xb0, 64, down ? 127 : 0]]);
    },
    get metronome() { return metronome; },
    set metronome(on) { metronome = on; },
    get volume() { return output.volume; },
    set volume(/** @type {number} */ share) { output.volume = share; },
    /** How the tracks of the document sound: see document/mixer.js. */
    setMix(/** @type {any[]} */ mixed) {
      const before = JSON.stringify([...controllers(tracks)]);
      tracks = mixed;
      if (before !== JSON.stringify([...controllers(tracks)])) run?.retune?.();
    },
    /** Load everything, after a gesture; playing does so too. */
    prepare: () => output.synth(),
  };
}

/**
 * Plays the export of a session as a WAV file, with the same surface as a run of the player: where the synthesiser cannot run.
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

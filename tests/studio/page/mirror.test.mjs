import assert from "node:assert/strict";
import test from "node:test";
import { post, ServerError } from "../../../musictx/studio/page/js/core/api.js";
import { Mirror } from "../../../musictx/studio/page/js/document/mirror.js";
import { apply, fromWire, noteFromWire } from "../../../musictx/studio/page/js/document/operation.js";
import { documentOf, randomly, randomNotes, rows, whole } from "./music.mjs";

/** A server in a few lines: it keeps documents whole, and undoes by putting the one before back. */
class Server {
  constructor(document) {
    this.states = [document];
    this.place = 0;
    this.revision = document.revision;
    this.failures = []; // what the next requests meet: "lost" or "late" (done, but the answer is lost)
    this.pause = () => 0;
  }

  get document() {
    return { ...this.states[this.place], revision: this.revision, can_undo: this.place > 0, can_redo: this.place < this.states.length - 1 };
  }

  do(wire) {
    const after = apply(fromWire(this.document), { ...wire, add: wire.add?.map(noteFromWire), change: wire.change?.map(noteFromWire) });
    wire.add?.forEach(([id], i) => assert.equal(id, this.document.next_id + i, "ids without gaps"));
    this.states = [...this.states.slice(0, this.place + 1), { ...this.document, notes: rows(after), locked: [...after.locked], next_id: after.next_id, name: after.name }];
    this.place++;
    this.revision++;
  }

  requests() {
    const check = (revision) => {
      if (revision !== this.revision) throw new ServerError("the piece has changed meanwhile", 409);
    };
    return {
      get: async () => structuredClone(this.document),
      post: async (path, body) => {
        await new Promise((resolve) => setTimeout(resolve, this.pause()));
        const failure = this.failures.shift();
        if (failure === "lost") throw new ServerError("no answer", 0);
        check(body.revision);
        if (path.endsWith("/ops")) {
          if (body.remove?.includes(-1)) throw new ServerError("there is no note -1", 400);
          this.do(body);
          if (failure === "late") throw new ServerError("no answer", 0);
          const { revision, can_undo, can_redo, next_id, duration } = this.document;
          return { revision, can_undo, can_redo, next_id, duration };
        }
        const by = path.endsWith("/undo") ? -1 : 1;
        if (path.includes("/accept")) this.do({ add: [[this.document.next_id, 1, 2, 60, 80, 0]] });
        else if (!(by < 0 ? this.document.can_undo : this.document.can_redo)) throw new ServerError("there is nothing to undo", 409);
        else this.place += by;
        this.revision += path.includes("/accept") ? 0 : 1;
        return structuredClone(this.document);
      },
    };
  }
}

function opened(notes = randomNotes(randomly(1), 20)) {
  const server = new Server(documentOf(notes));
  const mirror = new Mirror(server.requests(), 1);
  const refused = [];
  mirror.on("refused", (error) => refused.push(error));
  mirror.show(structuredClone(server.document));
  return { server, mirror, refused };
}

const agree = (mirror, server) => {
  assert.deepEqual(rows(mirror.piece), [...server.document.notes].sort((a, b) => a[0] - b[0]));
  assert.deepEqual([...mirror.piece.locked].sort(), [...server.document.locked].sort());
  assert.equal(mirror.piece.revision, server.revision);
};

test("whatever one does in whatever rhythm, with lost requests and other pages, page and server agree in the end", async () => {
  for (let seed = 0; seed < 40; seed++) {
    const random = randomly(seed);
    const { server, mirror, refused } = opened(randomNotes(random, 12));
    const alone = seed % 2; // else another page changes the piece meanwhile
    const states = [];
    mirror.on("state", (state) => states.push(state));
    server.pause = () => (random() < 0.3 ? random() * 3 : 0);
    for (let i = 0; i < 30; i++) {
      const ids = [...mirror.piece.notes.keys()];
      const note = mirror.piece.notes.get(ids[whole(random, 0, ids.length - 1)]);
      const kind = random();
      if (random() < 0.1) server.failures.push(alone || random() < 0.5 ? "lost" : "late");
      if (kind < 0.25) mirror.change({ label: "draw", add: [{ id: mirror.piece.next_id, start: i, end: i + 1, pitch: 60, velocity: 80, track: 0 }] });
      else if (kind < 0.4 && note) mirror.change({ label: "move", change: [{ ...note, start: i, end: i + 1 }] });
      else if (kind < 0.5 && note) mirror.change({ label: "delete", remove: [note.id] });
      else if (kind < 0.55 && note) mirror.change({ label: "lock", lock: [note.id] });
      else if (kind < 0.6 && !alone) mirror.change({ label: "wrong", remove: [-1], add: [{ id: mirror.piece.next_id, start: 0, end: 1, pitch: 1, velocity: 1, track: 0 }] });
      else if (kind < 0.75) mirror.undo();
      else if (kind < 0.85) mirror.redo();
      else if (kind < 0.9) mirror.accept(1, 1);
      else if (kind < 0.95 && !alone) {
        await mirror.settled();
        server.do({ name: `by another page, ${i}` });
        if (random() < 0.5) mirror.serverChanged(server.revision);
        else mirror.refetch();
        await new Promise((resolve) => setTimeout(resolve, 2));
        agree(mirror, server);
      } else await mirror.settled();
    }
    await mirror.settled();
    agree(mirror, server);
    assert.equal(mirror.piece.name, server.document.name);
    if (states.includes("lost")) assert.equal(states.at(-1), "saved");
    if (alone) assert.deepEqual(refused, [], `seed ${seed}`);
  }
});

test("a note that was drawn and moved while others came keeps its move", async () => {
  const { server, mirror, refused } = opened();
  mirror.accept(1, 1); // brings a note with the id that the page would give next
  const id = mirror.piece.next_id;
  const note = { id, start: 3, end: 4, pitch: 50, velocity: 80, track: 0 };
  mirror.change({ label: "draw", add: [note] });
  mirror.change({ label: "move", change: [{ ...note, pitch: 51 }], lock: [id] });
  await mirror.settled();
  agree(mirror, server);
  assert.deepEqual(refused, []);
  assert.equal(mirror.piece.notes.get(id).pitch, 60);
  assert.equal(mirror.piece.notes.get(id + 1).pitch, 51);
  assert.deepEqual([...mirror.piece.locked], [id + 1]);
});

test("what is done in a piece that is opened while another's answer is awaited is sent", async () => {
  const { server, mirror } = opened();
  server.pause = () => 20;
  const left = mirror.change({ label: "a", name: "of the first" });
  assert.ok(mirror.pending);
  await new Promise((resolve) => setTimeout(resolve, 5));
  const second = new Server({ ...documentOf([]), id: "second" });
  mirror.requests = second.requests();
  mirror.show(second.document);
  assert.equal(await left, false);
  assert.equal(await mirror.change({ label: "b", name: "of the second" }), true);
  assert.deepEqual([second.document.name, mirror.piece.name, mirror.pending], ["of the second", "of the second", false]);
});

test("an answer that breaks off is a lost connection, not an empty answer", async () => {
  const before = globalThis.fetch;
  const answers = [{ ok: true, status: 200, json: () => Promise.reject(new SyntaxError("Unexpected end")) }, { ok: true, status: 204 }];
  globalThis.fetch = /** @type {any} */ (() => Promise.resolve(answers.shift()));
  try {
    await assert.rejects(post("sessions/x/undo", {}), (error) => error instanceof ServerError && error.lost);
    assert.equal(await post("sessions/x/takes/1", {}), null);
  } finally {
    globalThis.fetch = before;
  }
});

"""Sound and notation in a real Chromium. The output of the synthesiser is measured."""

import numpy as np
import pytest

from tests.browser.desk import Desk
from tests.browser.served import wait_for

pytest.importorskip("playwright.sync_api")

#: Measures the loudness of the output, and adds a MIDI keyboard that the test plays.
METER = """
const connect = AudioNode.prototype.connect;
AudioNode.prototype.connect = function (to, ...more) {
  if (to instanceof AudioDestinationNode && this.context instanceof AudioContext) {
    window.meter = new AnalyserNode(this.context, {fftSize: 2048});
    connect.call(this, window.meter);
  }
  return connect.call(this, to, ...more);
};
window.loudness = () => {
  if (!window.meter) return 0;
  const frames = new Float32Array(2048);
  window.meter.getFloatTimeDomainData(frames);
  return Math.sqrt(frames.reduce((sum, x) => sum + x * x, 0) / frames.length);
};
navigator.requestMIDIAccess = async () => {
  window.keyboard = {name: "Test keys", state: "connected"};
  window.press = (...data) => keyboard.onmidimessage({data, timeStamp: performance.now()});
  return {inputs: new Map([["1", keyboard]]), onstatechange: null};
};
"""
#: Renders two seconds by the page's synthesiser, with a note from 0.5 to 1 s.
RENDER = """async ([program, drum, key]) => {
  const {createSynth} = await import("/page/js/sound/synth.js");
  const context = new OfflineAudioContext(2, 88200, 44100);
  const synth = await createSynth(context);
  synth.node.connect(context.destination);
  await synth.setChannel(3, program, drum);
  synth.send([[0.5, 3, 0x90, key, 90], [1, 3, 0x80, key, 0]]);
  await new Promise((resolve) => setTimeout(resolve, 200)); // messages have arrived
  return [...(await context.startRendering()).getChannelData(0)];
}"""
#: Shows a take that is being composed after the end of the piece.
TAKE = """() => {
  const begin = musictx.piece.duration;
  const proposal = {number: 1, state: "composing", notes: [], tracks: [], removes: []};
  musictx.takes.update({id: 1, task: "continue", label: "continue", state: "composing", place: 0,
    progress: 0.1, seed: 1, model: "piano", begin: 0, end: begin, tracks: null, request: {},
    command: "", aside: false, error: null, made: "", proposals: [proposal]});
  musictx.show(1, 1);
  window.compose = (...events) => musictx.takes.addEvents({take: 1, proposal: 1, events});
  return begin;
}"""
#: The least loudness of sound, and the largest of silence.
LOUD, SILENT = 3e-3, 1e-3


@pytest.fixture
def meter(context):
    context.add_init_script(METER)


@pytest.fixture
def desk(meter, page, studio):
    return Desk(page, studio.url)


def wait_for_sound(desk) -> None:
    wait_for(lambda: desk.page.evaluate("loudness()") > LOUD, 15, "sound")


def wait_for_silence(desk) -> None:
    wait_for(lambda: desk.page.evaluate("loudness()") < SILENT, 15, "silence")


def test_instruments_sound_in_tune_and_on_time_and_drums_differ(desk):
    """The last program, the cello, has no recording and sounds as strings."""
    hertz = np.fft.rfftfreq(1 << 18, 1 / 44100)
    for program, key in ((0, 69), (52, 69), (48, 57), (32, 45), (73, 81), (24, 57), (42, 57)):
        sound = np.array(desk.page.evaluate(RENDER, [program, False, key]))
        assert np.abs(sound[:22050]).max() == 0
        onset = np.argmax(np.abs(sound) > 1e-4) / 44100
        assert 0.5 <= onset < 0.503
        assert 0.02 < np.abs(sound).max() < 0.5
        spectrum = np.abs(np.fft.rfft(sound[26460:43000] * np.hanning(16540), 1 << 18))
        near = np.abs(hertz / (440 * 2 ** ((key - 69) / 12)) - 1) < 0.06
        cents = 1200 * np.log2(hertz[near][spectrum[near].argmax()] / 440) - 100 * (key - 69)
        assert abs(cents) < 25, program
        assert sound[-4410:].std() < 0.3 * sound[30000:43000].std()
    snare, kick = (np.array(desk.page.evaluate(RENDER, [0, True, key])) for key in (38, 36))
    power = [np.abs(np.fft.rfft(sound)) ** 2 for sound in (snare, kick)]
    hertz = np.fft.rfftfreq(88200, 1 / 44100)
    centres = [(p * hertz).sum() / p.sum() for p in power]
    assert centres[0] > 3 * centres[1]


def test_mute_solo_and_volume(desk):
    desk.open_example("Ode to joy")
    desk.button("Play (Space)").click()
    wait_for_sound(desk)
    desk.page.locator("#tracks .flag.mute").click()
    wait_for_silence(desk)
    desk.page.locator("#tracks .flag.mute").click()
    wait_for_sound(desk)
    for volume, wait in (("0", wait_for_silence), ("80", wait_for_sound)):
        desk.page.get_by_role("slider", name="Volume", exact=True).fill(volume)
        wait(desk)
    desk.button("Stop (Space)").click()
    wait_for_silence(desk)
    assert desk.page.evaluate("!musictx.player.playing")


def test_new_music_is_played_while_it_is_composed(desk):
    desk.page.evaluate("() => { musictx.stream.on('takes', () => { window.streaming = true; }); }")
    for piece in range(2):  # in both, the take has the number 1
        desk.open_example("Ode to joy")
        desk.until("window.streaming")  # the first event of the server replaces all takes
        desk.page.locator("#roll").click()  # browsers play no sound before a user gesture
        begin = desk.page.evaluate(TAKE)
        desk.page.evaluate(
            "b => compose(['on', b, 60, 90, 0], ['on', b + 1, 64, 90, 0], ['off', b + 1, 60, 0])",
            begin,
        )
        wait_for_sound(desk)
        if not piece:
            desk.page.evaluate("() => { window.streaming = false; musictx.player.stop(); }")
            wait_for_silence(desk)
            desk.button("All pieces").click()
    # The player waits at the end of the composed notes, and continues with the next.
    desk.until("document.querySelector('#transport').dataset.state === 'waiting'")
    assert desk.page.evaluate("musictx.player.position") == pytest.approx(begin + 1, abs=0.1)
    wait_for_silence(desk)
    desk.page.evaluate("b => compose(['off', b + 2, 64, 0], ['on', b + 3, 67, 90, 0])", begin)
    wait_for_sound(desk)
    desk.until("musictx.player.position > x", begin + 1.5)


def test_a_midi_keyboard_plays_and_is_recorded(desk):
    desk.open_empty()
    desk.button("MIDI", exact=True).click()
    desk.page.get_by_title("Listening to Test keys").wait_for()
    desk.page.evaluate("press(0x90, 60, 100)")
    wait_for_sound(desk)
    desk.page.evaluate("press(0x80, 60, 0)")
    wait_for_silence(desk)
    desk.page.keyboard.press("r")
    desk.until("musictx.player.position > 0.2")
    desk.page.evaluate("press(0xb0, 64, 127); press(0x90, 72, 77); press(0x80, 72, 0)")
    desk.page.wait_for_timeout(400)
    desk.page.evaluate("press(0xb0, 64, 0)")
    desk.page.keyboard.press("r")
    desk.until("musictx.piece.notes.size === 1")
    (note,) = desk.notes()
    assert note[3:5] == [72, 77]
    assert 0.3 < note[2] - note[1] < 3  # sustained by the pedal


@pytest.mark.parametrize("name", ["AudioWorkletNode", "OfflineAudioContext"])
def test_without_a_synthesiser_the_page_plays_the_sound_of_the_server(desk, context, name):
    context.watched.expected.append("no synthesiser")
    desk.page.evaluate("name => { window[name] = null; }", name)
    desk.open_example("Ode to joy")
    desk.button("Play (Space)").click()
    desk.until("musictx.player.position > 0.5", None, 60)
    assert desk.page.get_by_text("plays the server's sound file").is_visible()
    desk.page.keyboard.press("Space")
    desk.until("!musictx.player.playing")


def test_notation_selects_notes_and_follows_the_music(desk):
    desk.open_example("Ode to joy")
    desk.page.locator("#roll").focus()
    desk.page.keyboard.press("v")
    heads = desk.page.locator("#notation .abcjs-note")
    heads.first.wait_for()
    tied = desk.page.evaluate(
        "import('/page/js/notation/abc.js').then(({toAbc}) => toAbc(musictx.piece).marks.length)"
    )
    assert heads.count() == tied >= desk.page.evaluate("musictx.piece.notes.size")
    heads.nth(4).click(force=True)
    desk.until("musictx.selection.notes.size === 1")
    assert desk.page.locator("#notation .selected").count() == 1
    desk.page.keyboard.press("Space")
    wait_for_sound(desk)
    desk.page.locator("#notation .sounding").first.wait_for()
    desk.page.keyboard.press("Space")
    desk.page.keyboard.press("v")
    assert desk.page.locator("#roll").is_visible()
